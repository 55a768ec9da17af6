//! Words for those whose request's head is refused before anybody here sees it.

use std::{
    future::poll_fn,
    io::{self, IoSlice},
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use http::StatusCode;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    time::{Sleep, sleep},
};

use super::api::Problem;

/// How many bytes the head of a request may have, tokens and cookies included.
pub(super) const LARGEST_HEAD: usize = 16 << 10;

/// How much of the rest of a refused request is taken, and for how long, so that its sender gets to reading the answer. Hanging up on
/// him while he writes would take the answer away again.
const HEARD_OUT: usize = 4 << 20;
const PATIENCE: Duration = Duration::from_secs(1);

/// A connection on which no head is refused without a word.
///
/// hyper answers a head that it cannot read by itself, and with nothing but a status. That answer is the only one of its kind, since whatever
/// we refuse has a body, so a problem in words goes out in place of it. Who speaks HTTP/2 without having agreed on it is still hung up on.
#[derive(Debug)]
pub(super) struct Worded<S> {
    stream: S,
    refusal: Option<Refusal>,
}

/// What is said in place of a bare status, and how far that is.
#[derive(Debug)]
struct Refusal {
    answer: Vec<u8>,
    written: usize,
    hung_up: bool,
    heard: usize,
    patience: Pin<Box<Sleep>>,
}

impl<S> Worded<S> {
    pub(super) fn new(stream: S) -> Self {
        Self { stream, refusal: None }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Worded<S> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let own = self.get_mut();
        match said_instead(&mut own.refusal, bytes) {
            None => Pin::new(&mut own.stream).poll_write(context, bytes),
            Some(refusal) => {
                ready!(refusal.poll_say(&mut own.stream, context))?;
                Poll::Ready(Ok(bytes.len()))
            }
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let own = self.get_mut();
        match said_instead(&mut own.refusal, slices.first().map_or(&[], |first| first)) {
            None => Pin::new(&mut own.stream).poll_write_vectored(context, slices),
            Some(refusal) => {
                ready!(refusal.poll_say(&mut own.stream, context))?;
                Poll::Ready(Ok(slices.iter().map(|own| own.len()).sum()))
            }
        }
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let own = self.get_mut();
        match &mut own.refusal {
            None => Pin::new(&mut own.stream).poll_shutdown(context),
            Some(refusal) => refusal.poll_hang_up(&mut own.stream, context),
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Worded<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_read(context, into)
    }
}

/// What is said in place of these bytes, and of all that comes after it.
fn said_instead<'a>(refusal: &'a mut Option<Refusal>, bytes: &[u8]) -> Option<&'a mut Refusal> {
    if refusal.is_none() {
        *refusal = bare_refusal(bytes).map(Refusal::of_head);
    }
    refusal.as_mut()
}

/// The status of a refusal that is nothing but a head.
fn bare_refusal(bytes: &[u8]) -> Option<StatusCode> {
    let (_version, rest) = bytes.strip_prefix(b"HTTP/1.")?.split_first()?;
    let status = rest.strip_prefix(b" ").filter(|rest| rest.starts_with(b"4"))?.get(..3)?;
    let has = |text: &[u8]| bytes.windows(text.len()).position(|own| own == text);
    let ends_with_its_head = has(b"\r\n\r\n").is_some_and(|end| end + 4 == bytes.len());
    let is_bare = ends_with_its_head && has(b"\r\ncontent-length: 0\r\n").is_some();
    StatusCode::from_bytes(status).ok().filter(|_| is_bare)
}

/// Whether somebody who connects where we speak TLS begins with a request in the clear: TLS begins with no letter.
pub(super) async fn is_in_the_clear(stream: &TcpStream) -> bool {
    let mut first = [0];
    stream.peek(&mut first).await.is_ok_and(|read| read > 0 && first[0].is_ascii_alphabetic())
}

/// Tells somebody who speaks in the clear that we do not.
pub(super) async fn ask_for_encryption(mut stream: TcpStream) -> io::Result<()> {
    let detail = "TLS is spoken here; ask with https://";
    let mut refusal = Refusal::new(Problem::bad_request(detail));
    poll_fn(|context| refusal.poll_say(&mut stream, context)).await?;
    poll_fn(|context| refusal.poll_hang_up(&mut stream, context)).await
}

impl Refusal {
    fn of_head(status: StatusCode) -> Self {
        let detail = match status {
            StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE | StatusCode::URI_TOO_LONG => {
                let most = LARGEST_HEAD >> 10;
                format!(
                    "URL and headers of a request have at most {most} KiB together, tokens and cookies included, and there are at most 100 of them"
                )
            }
            _ => "what was sent is no request of HTTP/1.1".to_owned(),
        };
        Self::new(Problem::new(status, detail))
    }

    fn new(problem: Problem) -> Self {
        let answer = problem.into_closing_answer();
        Self { answer, written: 0, hung_up: false, heard: 0, patience: Box::pin(sleep(PATIENCE)) }
    }

    fn poll_say(
        &mut self,
        stream: &mut (impl AsyncWrite + Unpin),
        context: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        while self.written < self.answer.len() {
            match ready!(Pin::new(&mut *stream).poll_write(context, &self.answer[self.written..]))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                written => self.written += written,
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Says that nothing else will be said, and hears the rest out.
    fn poll_hang_up(
        &mut self,
        stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
        context: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.hung_up {
            ready!(Pin::new(&mut *stream).poll_shutdown(context))?;
            self.hung_up = true;
        }
        let mut rest = [0; 8 << 10];
        while self.heard < HEARD_OUT {
            let mut into = ReadBuf::new(&mut rest);
            match Pin::new(&mut *stream).poll_read(context, &mut into) {
                Poll::Ready(Ok(())) if !into.filled().is_empty() => self.heard += into.filled().len(),
                Poll::Ready(_) => break,
                Poll::Pending => {
                    ready!(self.patience.as_mut().poll(context));
                    break;
                }
            }
        }
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::bare_refusal;

    #[track_caller]
    fn check(written: &str, status: Option<u16>) {
        assert_eq!(bare_refusal(written.as_bytes()).map(|own| own.as_u16()), status, "{written}");
    }

    #[test]
    fn only_a_refusal_that_is_nothing_but_a_head_is_bare() {
        let end = "\r\nconnection: close\r\ncontent-length: 0\r\ndate: x\r\n\r\n";
        check(&format!("HTTP/1.1 431 Request Header Fields Too Large{end}"), Some(431));
        check(&format!("HTTP/1.0 400 Bad Request{end}"), Some(400));
        check(&format!("HTTP/1.1 200 OK{end}"), None);
        check(&format!("HTTP/1.1 503 Service Unavailable{end}"), None);
        check("HTTP/1.1 404 Not Found\r\ncontent-length: 2\r\n\r\n{}", None);
        check("HTTP/1.1 404 Not Found\r\ncontent-length: 2\r\n\r\n", None);
        check(
            &format!("HTTP/1.1 404 Not Found\r\ncontent-length: 99\r\n\r\nHTTP/1.1 404 Not Found{end}"),
            None,
        );
        check(&format!("some text of a body: HTTP/1.1 404 Not Found{end}"), None);
        for short in ["", "HTTP/1.", "HTTP/1.1", "HTTP/1.1 4", "HTTP/1.1 40"] {
            check(short, None);
        }
    }
}
