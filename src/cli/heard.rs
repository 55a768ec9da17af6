//! Where answers go: to somebody who may have heard enough before they end.

use std::io::{self, StdoutLock, Write};

/// Standard output.
pub(super) type Stdout = Heard<StdoutLock<'static>>;

/// Writes to somebody who may stop reading. `head` does when it has seen enough, and that is no error.
pub(super) struct Heard<W> {
    inner: W,
    left: bool,
}

impl<W: Write> Heard<W> {
    pub(super) fn new(inner: W) -> Self {
        Self { inner, left: false }
    }

    /// Whether nobody reads any more.
    pub(super) fn has_left(&self) -> bool {
        self.left
    }

    fn unless_left<T: Default>(&mut self, written: io::Result<T>) -> io::Result<T> {
        match written {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                self.left = true;
                Ok(T::default())
            }
            written => written,
        }
    }
}

impl<W: Write> Write for Heard<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = if self.left { Ok(0) } else { self.inner.write(bytes) };
        let count = self.unless_left(written)?;
        Ok(if self.left { bytes.len() } else { count })
    }

    fn flush(&mut self) -> io::Result<()> {
        let flushed = if self.left { Ok(()) } else { self.inner.flush() };
        self.unless_left(flushed)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{self, Write};

    use super::Heard;

    /// Takes two bytes, and then fails like this.
    struct Full(Vec<u8>, io::ErrorKind);

    impl Write for Full {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let room = bytes.len().min(2 - self.0.len());
            self.0.extend(&bytes[..room]);
            if room == 0 { Err(self.1.into()) } else { Ok(room) }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn whoever_has_heard_enough_is_no_error_and_anything_else_is() {
        let mut heard = Heard::new(Full(Vec::new(), io::ErrorKind::BrokenPipe));
        assert!(heard.write_all(b"ab").is_ok() && !heard.has_left());
        assert!(heard.write_all(b"cd").is_ok() && heard.has_left());
        assert!(heard.write_all(b"ef").and_then(|()| heard.flush()).is_ok());
        assert_eq!(heard.inner.0, b"ab");
        let mut full = Heard::new(Full(Vec::new(), io::ErrorKind::StorageFull));
        assert!(full.write_all(b"abcd").is_err() && !full.has_left());
    }
}
