// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Fuzzes any bytes as answers to weirgate: from a domain's routers and the ends of its
//! measurement, receivers of metrics, and web servers. The first byte selects one.
//!
//! Besides "no panic", this must hold: an answer that is read does not change when it is written
//! and read again. Messages about an answer are short, and have no control characters except
//! newline and tab.

mod domain;

use std::io::{self, Cursor, Read, Write};
use std::sync::LazyLock;
use std::sync::atomic::AtomicU64;
use std::time::Duration;
use tokio::io::{AsyncWriteExt as _, copy, duplex, sink, split};
use tokio::runtime::{Builder, Runtime};
use weirgate_probe::Bulk;
use weirgate_rollout::end::Answer;
use weirgate_watch::{Failed, Kind, Receiver, deliver};

/// The maximum length of a message about an answer, in characters: a part of the answer, and the
/// text around it.
const MOST: usize = 400;

pub fn run(data: &[u8]) {
    let Some((first, rest)) = data.split_first() else {
        return;
    };
    match first {
        b'a' => domain::packets(rest),
        b'e' => domain::end(rest),
        b'r' => domain::router(rest),
        b'o' => of_a_receiver(Kind::Otlp, rest),
        b'w' => of_a_receiver(Kind::RemoteWrite, rest),
        b'h' => of_a_server(rest),
        _ => {}
    }
}

/// Fuzzes a whole HTTP answer of a receiver of metrics, which then closes the connection.
fn of_a_receiver(kind: Kind, answer: &[u8]) {
    static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
        let runtime = Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime")
    });
    let receiver = Receiver::parse(kind, "http://localhost/v1/metrics").expect("a receiver");
    let delivered = RUNTIME.block_on(async {
        let (own, theirs) = duplex(1 << 16);
        let (mut asked, mut near) = split(theirs);
        let peer = async {
            // Ignore errors: the client may close the connection early.
            let _ = near.write_all(answer).await;
            let _ = near.shutdown().await;
            let _ = copy(&mut asked, &mut sink()).await;
        };
        let delivered = deliver(&receiver, own, b"numbers".to_vec().into());
        let both = async { tokio::join!(delivered, peer).0 };
        let ended = tokio::time::timeout(Duration::from_secs(20), both).await;
        ended.expect("it ends when the connection does")
    });
    if let Err(Failed::Later(why, _) | Failed::Never(why)) = delivered {
        assert!(why.chars().count() <= MOST, "{why}");
        assert!(!why.chars().any(char::is_control), "{why:?}");
    }
}

/// A connection whose data has all arrived already.
#[derive(Debug)]
struct Reply<'a>(Cursor<&'a [u8]>);

impl Read for Reply<'_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        self.0.read(to)
    }
}

impl Write for Reply<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Fuzzes a web server's answer to a download that fills the line.
fn of_a_server(answer: &[u8]) {
    let bulk = Bulk::parse("http://192.0.2.1/file").expect("a URL");
    let counted = AtomicU64::new(0);
    let asked = bulk.ask(Reply(Cursor::new(answer)), &counted);
    assert!(counted.into_inner() <= answer.len() as u64);
    if let Err(error) = asked {
        is_plain(&error.to_string());
    }
}

/// Checks that a text is safe for a terminal.
#[track_caller]
fn is_plain(shown: &str) {
    let plain = |one: char| !one.is_control() || "\n\t".contains(one);
    assert!(shown.chars().all(plain), "{shown:?}");
}

/// The planted mistake: a flow number with a last digit that no seed has.
#[cfg(feature = "planted")]
fn planted(answer: &Answer) {
    if let Answer::Sent(sent) = answer {
        let sevens = sent.keys().any(|flow| flow % 10 == 7);
        assert!(!sevens, "the planted mistake: a flow that ends in 7");
    }
}

#[cfg(not(feature = "planted"))]
fn planted(_: &Answer) {}
