// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A file of a web server as what fills a line downwards: fetched by four
//! connections, again and again, from the one host that the URL names.

use crate::remote::{RemoteError, Transfer, count};
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream, ToSocketAddrs as _};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

const STREAMS: usize = 4;
/// How often each connection fetches it: a short file would be asked for without
/// end.
const FETCHES: u32 = 200;
const PATIENCE: Duration = Duration::from_secs(10);
/// Bytes of an answer's head.
const HEAD: u64 = 65_536;

/// An `http://` URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bulk {
    host: String,
    port: u16,
    path: String,
}

impl Bulk {
    /// Reads a URL.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = |why: &str| format!("`{text}`: {why}");
        let rest = text.strip_prefix("http://").ok_or_else(|| {
            wrong("say `http://HOST/FILE`; TLS would measure this machine's processor, too")
        })?;
        let (place, path) = rest.find('/').map_or((rest, "/"), |at| rest.split_at(at));
        let (host, port) = match place.rsplit_once(':') {
            Some((host, port)) if !port.contains(']') => {
                let port = port.parse().ok().filter(|port| *port > 0);
                (host, port.ok_or_else(|| wrong("a port is 1 to 65535"))?)
            }
            _ => (place, 80),
        };
        let bare = host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'));
        let host = bare.unwrap_or(host);
        let fine = |letter: char| letter.is_ascii_alphanumeric() || "-._:".contains(letter);
        if host.is_empty() || !host.chars().all(fine) {
            return Err(wrong("it names no host"));
        }
        if !path.chars().all(|letter| letter.is_ascii_graphic()) {
            return Err(wrong("its path has letters that must be percent-encoded"));
        }
        Ok(Self {
            host: host.to_owned(),
            port,
            path: path.to_owned(),
        })
    }

    /// The host that is asked.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    fn address(&self) -> Result<SocketAddr, RemoteError> {
        let found = (&*self.host, self.port).to_socket_addrs()?.next();
        found.ok_or_else(|| RemoteError::Silent(self.host.clone()))
    }

    /// Fetches it until the connection is shut or it fails.
    fn fetch(&self, stream: &TcpStream, counted: &AtomicU64) -> Result<(), RemoteError> {
        let host = if self.host.contains(':') {
            format!("[{}]", self.host)
        } else {
            self.host.clone()
        };
        let agent = concat!("weirgate/", env!("CARGO_PKG_VERSION"));
        let mut to = stream;
        write!(
            to,
            "GET {} HTTP/1.1\r\nHost: {host}:{}\r\nUser-Agent: {agent}\r\nAccept: */*\r\n\
             Accept-Encoding: identity\r\nConnection: close\r\n\r\n",
            self.path, self.port
        )?;
        let mut from = BufReader::new(stream);
        let mut status = String::new();
        (&mut from).take(HEAD).read_line(&mut status)?;
        let code = status.split(' ').nth(1).unwrap_or_default();
        if code != "200" {
            let hint = if code.starts_with('3') {
                "; name the place that it leads to: nobody else is asked"
            } else {
                ""
            };
            let shown: String = status.trim().chars().take(80).collect();
            return Err(RemoteError::Strange(format!(
                "{} answers `{}`{hint}",
                self.host,
                shown.escape_debug()
            )));
        }
        let mut block = vec![0; 131_072];
        loop {
            let read = from.read(&mut block)?;
            if read == 0 {
                return Ok(());
            }
            counted.fetch_add(read as u64, Ordering::Relaxed);
        }
    }

    /// Fills the line downwards for a time.
    pub(crate) fn fill(&self, time: Duration) -> Result<Transfer, RemoteError> {
        let address = self.address()?;
        let counted = AtomicU64::new(0);
        let over = AtomicBool::new(false);
        let open: [Mutex<Option<TcpStream>>; STREAMS] = Default::default();
        let lock = |place: usize| open[place].lock().unwrap_or_else(PoisonError::into_inner);
        let over = &over;
        // Each worker's connection is where it can be shut.
        let again = |place: usize| -> Result<(), RemoteError> {
            for _ in 0..FETCHES {
                let stream = TcpStream::connect_timeout(&address, PATIENCE)?;
                stream.set_read_timeout(Some(PATIENCE))?;
                *lock(place) = Some(stream.try_clone()?);
                if over.load(Ordering::Relaxed) {
                    return Ok(());
                }
                self.fetch(&stream, &counted)?;
                if over.load(Ordering::Relaxed) {
                    return Ok(());
                }
            }
            Err(RemoteError::Strange(format!(
                "the file of {} is too short: it came {FETCHES} times; name a longer one",
                self.host
            )))
        };
        thread::scope(|scope| {
            let work = |place| scope.spawn(move || again(place));
            let workers: Vec<_> = (0..STREAMS).map(work).collect();
            let transfer = count(time, &counted);
            over.store(true, Ordering::Relaxed);
            for stream in (0..STREAMS).filter_map(|place| lock(place).take()) {
                let _ = stream.shutdown(Shutdown::Both);
            }
            let ended: Vec<_> = workers
                .into_iter()
                .map(thread::ScopedJoinHandle::join)
                .collect();
            // One that was shut while it read fails, and that is no matter.
            let failed = ended.into_iter().find_map(|one| one.ok()?.err());
            match failed {
                // It ended before the time did, or never began.
                Some(error @ RemoteError::Strange(_)) => Err(error),
                Some(error) if transfer.bytes == 0 => Err(error),
                None if transfer.bytes == 0 => {
                    Err(io::Error::from(io::ErrorKind::UnexpectedEof).into())
                }
                _ => Ok(transfer),
            }
        })
    }
}
