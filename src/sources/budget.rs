//! Counts the cost of one baseline while it is decoded, and stops at the limits of the settings. A decode runs on a blocking
//! thread, which cannot be cancelled from outside.

use crate::config::{BaselineLimits, LimitExceeded};

/// A map uses the memory of this many scalars.
pub(super) const MAP_NODES: usize = 8;

/// The cost of one baseline so far.
#[derive(Debug)]
pub(super) struct Budget {
    limits: BaselineLimits,
    documents: usize,
    objects: usize,
    work: usize,
}

impl Budget {
    pub(super) fn new(limits: &BaselineLimits) -> Self {
        Self { limits: *limits, documents: 0, objects: 0, work: 0 }
    }

    pub(super) fn limits(&self) -> &BaselineLimits {
        &self.limits
    }

    pub(super) fn work(&self) -> usize {
        self.work
    }

    pub(super) fn remaining_work(&self) -> usize {
        self.limits.work.saturating_sub(self.work)
    }

    pub(super) fn add_document(&mut self) -> Result<(), LimitExceeded> {
        self.documents += 1;
        if self.documents > self.limits.documents { Err(self.limits.documents_exceeded()) } else { Ok(()) }
    }

    /// Counts an object, or a part that is reported as skipped.
    pub(super) fn add_object(&mut self) -> Result<(), LimitExceeded> {
        self.objects += 1;
        if self.objects > self.limits.objects { Err(self.limits.objects_exceeded()) } else { Ok(()) }
    }

    pub(super) fn add_work(&mut self, units: usize) -> Result<(), LimitExceeded> {
        self.work = self.work.saturating_add(units);
        if self.work > self.limits.work { Err(self.limits.work_exceeded()) } else { Ok(()) }
    }

    /// Counts the values of a JSON text before the parser allocates memory for them.
    pub(super) fn add_json(&mut self, text: &str) -> Result<(), LimitExceeded> {
        let (mut values, mut nodes, mut depth) = (1, 1, 0_usize);
        let mut bytes = text.bytes();
        while let Some(byte) = bytes.next() {
            match byte {
                b'"' => skip_string(&mut bytes),
                b',' | b':' => (values, nodes) = (values + 1, nodes + 1),
                b'[' | b'{' => {
                    depth += 1;
                    values += 1;
                    nodes += if byte == b'{' { MAP_NODES } else { 1 };
                    if depth > self.limits.depth {
                        return Err(self.limits.depth_exceeded());
                    }
                }
                b']' | b'}' => depth = depth.saturating_sub(1),
                _ => continue,
            }
            if nodes > self.limits.nodes {
                return Err(self.limits.nodes_exceeded());
            }
        }
        self.add_work(values)
    }
}

fn skip_string(bytes: &mut impl Iterator<Item = u8>) {
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => return,
            b'\\' => drop(bytes.next()),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Budget;
    use crate::config::BaselineLimits;

    #[test]
    fn values_of_json_are_counted_without_those_in_strings() {
        let limits = BaselineLimits { nodes: 11, depth: 2, work: 20, ..BaselineLimits::default() };
        let mut budget = Budget::new(&limits);
        assert_eq!(budget.add_json(r#"["[[{{,,,,,,,,,,\"", 1]"#), Ok(()));
        assert_eq!(budget.work(), 3);
        assert_eq!(budget.add_json(r#"{"a": [1]}"#), Ok(()));
        assert_eq!(budget.add_json("[{}, {}]"), Err(limits.nodes_exceeded()));
        assert_eq!(budget.add_json("[[[1]]]"), Err(limits.depth_exceeded()));
        assert_eq!(budget.add_json("[1,1,1,1,1,1,1,1]"), Ok(()));
        assert_eq!(budget.add_json("[1,1,1,1,1,1]"), Err(limits.work_exceeded()));
    }
}
