//! JSON exactly as Go's `encoding/json` writes it.

use std::io::Write as _;

/// Writes one JSON text; commas are set by what stands before.
#[derive(Debug, Default)]
pub(super) struct GoJson {
    out: Vec<u8>,
}

impl GoJson {
    /// The finished text.
    pub(super) fn finish(self) -> Vec<u8> {
        self.out
    }

    /// An object whose members `members` writes.
    pub(super) fn object(&mut self, members: impl FnOnce(&mut Self)) {
        self.out.push(b'{');
        members(self);
        self.out.push(b'}');
    }

    /// A list with one element per item.
    pub(super) fn list<T>(
        &mut self,
        items: impl IntoIterator<Item = T>,
        mut element: impl FnMut(&mut Self, T),
    ) {
        self.out.push(b'[');
        for item in items {
            self.separate(b'[');
            element(self, item);
        }
        self.out.push(b']');
    }

    /// The name of the next member.
    pub(super) fn key(&mut self, name: &str) -> &mut Self {
        self.separate(b'{');
        self.string(name);
        self.out.push(b':');
        self
    }

    /// A member that is left out when it is empty.
    pub(super) fn text_unless_empty(&mut self, name: &str, text: &str) {
        if !text.is_empty() {
            self.key(name).string(text);
        }
    }

    /// A whole number.
    pub(super) fn number(&mut self, number: impl Into<i64>) {
        write!(self.out, "{}", number.into()).expect("writing to memory cannot fail");
    }

    /// A string with Go's escapes, those for HTML included.
    pub(super) fn string(&mut self, text: &str) {
        self.out.push(b'"');
        if text.bytes().all(is_plain) {
            self.out.extend_from_slice(text.as_bytes());
            self.out.push(b'"');
            return;
        }
        let mut utf8 = [0; 4];
        for c in text.chars() {
            match c {
                '"' => self.out.extend(br#"\""#),
                '\\' => self.out.extend(br"\\"),
                '\n' => self.out.extend(br"\n"),
                '\r' => self.out.extend(br"\r"),
                '\t' => self.out.extend(br"\t"),
                '\u{8}' => self.out.extend(br"\b"),
                '\u{c}' => self.out.extend(br"\f"),
                '\0'..='\x1f' | '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                    write!(self.out, "\\u{:04x}", u32::from(c)).expect("writing to memory cannot fail");
                }
                _ => self.out.extend(c.encode_utf8(&mut utf8).as_bytes()),
            }
        }
        self.out.push(b'"');
    }

    fn separate(&mut self, opening: u8) {
        if self.out.last() != Some(&opening) {
            self.out.push(b',');
        }
    }
}

/// Whether a byte stands for itself: most strings hold no other, and are copied at once.
fn is_plain(byte: u8) -> bool {
    // 0xe2 begins the two line separators that Go escapes.
    byte >= 0x20 && !matches!(byte, b'"' | b'\\' | b'<' | b'>' | b'&' | 0xe2)
}

#[cfg(test)]
mod tests {
    use super::GoJson;

    #[test]
    fn strings_are_escaped_as_go_escapes_them() {
        let mut json = GoJson::default();
        json.string("a<b>&\"\\\n\r\t\u{8}\u{c}\u{1}\u{7f}\u{2028}é");
        assert_eq!(
            String::from_utf8(json.finish()).unwrap(),
            "\"a\\u003cb\\u003e\\u0026\\\"\\\\\\n\\r\\t\\b\\f\\u0001\u{7f}\\u2028é\""
        );
    }

    #[test]
    fn commas_stand_between_members_and_elements_only() {
        let mut json = GoJson::default();
        json.object(|json| {
            json.key("a").list([1, 2], super::GoJson::number);
            json.key("b").object(|_| ());
            json.text_unless_empty("c", "");
        });
        assert_eq!(json.finish(), br#"{"a":[1,2],"b":{}}"#);
    }
}
