// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Fills a line downstream with a file of a web server: four connections fetch it repeatedly
//! from the host in the URL.

use crate::remote::error::RemoteError;
use crate::remote::transfer::{Transfer, count};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use std::io::{self, BufRead as _, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream, ToSocketAddrs as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;
use weirgate_units::PeerText;

const STREAMS: usize = 4;
/// How often each connection fetches the file. Without a limit, a short file would be requested
/// endlessly.
const FETCHES: u32 = 200;
const PATIENCE: Duration = Duration::from_secs(10);
/// The largest head of a response in bytes.
const HEAD: u64 = 65_536;

/// The locations of the system's certificate authorities; the first that exists is used.
const AUTHORITIES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// An `http://` or `https://` URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bulk {
    tls: bool,
    /// Certificate authorities to trust instead of those of the system.
    authorities: Option<PathBuf>,
    host: String,
    port: u16,
    path: String,
}

impl Bulk {
    /// Parses a URL.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = |why: &str| format!("`{text}`: {why}");
        let (tls, rest) = match text.strip_prefix("https://") {
            Some(rest) => (true, rest),
            None => (
                false,
                text.strip_prefix("http://")
                    .ok_or_else(|| wrong("say `http://HOST/FILE` or `https://HOST/FILE`"))?,
            ),
        };
        let (place, path) = rest.find('/').map_or((rest, "/"), |at| rest.split_at(at));
        let (host, port) = match place.rsplit_once(':') {
            Some((host, port)) if !port.contains(']') => {
                let port = port.parse().ok().filter(|port| *port > 0);
                (host, port.ok_or_else(|| wrong("a port is 1 to 65535"))?)
            }
            _ => (place, if tls { 443 } else { 80 }),
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
            tls,
            authorities: None,
            host: host.to_owned(),
            port,
            path: path.to_owned(),
        })
    }

    /// Trusts the certificate authorities in a PEM file instead of those of the system.
    #[must_use]
    pub fn trusting(self, authorities: PathBuf) -> Self {
        Self {
            authorities: Some(authorities),
            ..self
        }
    }

    /// Returns the host that serves the file.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    fn address(&self) -> Result<SocketAddr, RemoteError> {
        let found = (&*self.host, self.port).to_socket_addrs()?.next();
        found.ok_or_else(|| RemoteError::Silent(self.host.clone()))
    }

    /// Returns the TLS configuration for `https://`.
    fn config(&self) -> Result<Option<Arc<ClientConfig>>, RemoteError> {
        if !self.tls {
            return Ok(None);
        }
        let of_system = || AUTHORITIES.iter().map(Path::new).find(|path| path.exists());
        let path = self.authorities.as_deref().or_else(of_system);
        let path = path.ok_or_else(|| {
            RemoteError::Strange(format!(
                "the system trusts no authorities ({} is missing), so https:// cannot be asked",
                AUTHORITIES[0]
            ))
        })?;
        let wrong = |why: &dyn std::fmt::Display| {
            RemoteError::Strange(format!("{}: {why}", path.display()))
        };
        let certificates = CertificateDer::pem_file_iter(path).map_err(|error| wrong(&error))?;
        let mut roots = RootCertStore::empty();
        // A system's file may contain unusable certificates.
        roots.add_parsable_certificates(certificates.filter_map(Result::ok));
        if roots.is_empty() {
            return Err(wrong(&"there is no usable certificate in it"));
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| wrong(&error))?;
        let mut config = builder.with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Some(Arc::new(config)))
    }

    /// Fetches the file on a connection until that is shut down or fails.
    fn fetch(
        &self,
        stream: TcpStream,
        tls: Option<&Arc<ClientConfig>>,
        counted: &AtomicU64,
    ) -> Result<(), RemoteError> {
        let Some(config) = tls else {
            return self.ask(stream, counted);
        };
        let strange =
            |error: rustls::Error| RemoteError::Strange(format!("{}: {error}", self.host));
        let name = ServerName::try_from(self.host.clone())
            .map_err(|error| RemoteError::Strange(format!("{}: {error}", self.host)))?;
        let connection = ClientConnection::new(Arc::clone(config), name).map_err(strange)?;
        let mut secured = StreamOwned::new(connection, stream);
        // Complete the handshake, to report an untrusted certificate in words.
        while secured.conn.is_handshaking() {
            secured
                .conn
                .complete_io(&mut secured.sock)
                .map_err(|error| match error.get_ref() {
                    Some(inner) if inner.is::<rustls::Error>() => {
                        // The message may quote the certificate.
                        let why = PeerText::new(inner.to_string());
                        RemoteError::Strange(format!("{}: {why}", self.host))
                    }
                    _ => error.into(),
                })?;
        }
        self.ask(secured, counted)
    }

    /// Requests the file on a connection, and counts the bytes of the response.
    pub fn ask(
        &self,
        mut stream: impl Read + Write,
        counted: &AtomicU64,
    ) -> Result<(), RemoteError> {
        let host = if self.host.contains(':') {
            format!("[{}]", self.host)
        } else {
            self.host.clone()
        };
        let agent = concat!("weirgate/", env!("CARGO_PKG_VERSION"));
        write!(
            stream,
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
                PeerText::new(shown)
            )));
        }
        let mut block = vec![0; 131_072];
        loop {
            let read = match from.read(&mut block) {
                Ok(0) => return Ok(()),
                // Some servers end TLS without a close notification; the file is valid
                // nevertheless.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
                other => other?,
            };
            counted.fetch_add(read as u64, Ordering::Relaxed);
        }
    }

    /// Fills the line downstream for a time.
    pub(crate) fn fill(&self, time: Duration) -> Result<Transfer, RemoteError> {
        let address = self.address()?;
        let tls = self.config()?;
        let counted = AtomicU64::new(0);
        let over = AtomicBool::new(false);
        let open: [Mutex<Option<TcpStream>>; STREAMS] = Default::default();
        let lock = |place: usize| open[place].lock().unwrap_or_else(PoisonError::into_inner);
        let over = &over;
        // Each worker's connection is stored so that it can be shut down.
        let again = |place: usize| -> Result<(), RemoteError> {
            for _ in 0..FETCHES {
                let stream = TcpStream::connect_timeout(&address, PATIENCE)?;
                stream.set_read_timeout(Some(PATIENCE))?;
                *lock(place) = Some(stream.try_clone()?);
                if over.load(Ordering::Relaxed) {
                    return Ok(());
                }
                self.fetch(stream, tls.as_ref(), &counted)?;
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
            // A connection that was shut down while reading fails, which is expected.
            let failed = ended.into_iter().find_map(|one| one.ok()?.err());
            match failed {
                // It ended before the time was over, or never started.
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
