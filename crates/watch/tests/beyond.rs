// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests the service from other machines' view: with TLS and names, by a real client.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod running;

use running::{Running, config, refused};
use rustix::net::{self, AddressFamily, SocketType};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, Stream, StreamOwned};
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddrV4, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use weirgate_watch::{Config, Listen, Tls, password, token};

/// Writes a certificate for `localhost` in two files, as renewal tools do: to temporary files,
/// which are renamed.
fn certificate(folder: &Path) -> String {
    let made = rcgen::generate_simple_self_signed(vec![String::from("localhost")]).unwrap();
    replace(&folder.join("key.pem"), &made.signing_key.serialize_pem());
    replace(&folder.join("cert.pem"), &made.cert.pem());
    made.cert.pem()
}

fn replace(path: &Path, text: &str) {
    let beside = path.with_extension("new");
    std::fs::write(&beside, text).unwrap();
    std::fs::rename(&beside, path).unwrap();
}

/// Returns the TLS end of a client that trusts only one certificate.
fn client(certificate: &str) -> ClientConnection {
    let mut roots = RootCertStore::empty();
    let trusted = CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap();
    roots.add(trusted).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from("localhost").unwrap();
    ClientConnection::new(Arc::new(config), name).unwrap()
}

struct Service {
    running: Running,
    folder: TempDir,
    certificate: String,
    token: String,
}

fn secured(folder: &Path, listen: &str) -> Config {
    let listen = Listen::Address(listen.parse().unwrap());
    Config {
        tls: Some(Tls {
            certificate: folder.join("cert.pem"),
            key: folder.join("key.pem"),
        }),
        access: Some(folder.join("access")),
        ..config(folder, listen)
    }
}

impl Service {
    fn start(listen: &str) -> Self {
        Self::with(listen, true)
    }

    fn with(listen: &str, tls: bool) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let certificate = certificate(folder.path());
        let (token, line) = token("grafana").unwrap();
        let ann = password("ann", "correct horse").unwrap();
        std::fs::write(folder.path().join("access"), format!("{line}\n{ann}\n")).unwrap();
        let mut config = secured(folder.path(), listen);
        if !tls {
            config.tls = None;
        }
        Self {
            running: Running::start(config),
            folder,
            certificate,
            token,
        }
    }

    /// Sends a request over TLS, trusting only one certificate.
    fn get(&self, certificate: &str, path: &str, authorization: &str) -> Result<String, String> {
        let mut client = client(certificate);
        let place = (Ipv4Addr::LOCALHOST, self.running.address().port());
        let mut socket = TcpStream::connect(place).unwrap();
        socket
            .set_read_timeout(Some(Duration::from_mins(1)))
            .unwrap();
        let mut stream = Stream::new(&mut client, &mut socket);
        let shown = match authorization {
            "" => String::new(),
            text => format!("Authorization: {text}\r\n"),
        };
        // A name that is not the machine's own.
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: box.example\r\n{shown}Connection: close\r\n\r\n");
        stream
            .write_all(request.as_bytes())
            .map_err(|error| error.to_string())?;
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        Ok(String::from_utf8_lossy(&answer).into_owned())
    }

    fn status(&self, authorization: &str) -> String {
        let answer = self.get(&self.certificate, "/api/about", authorization);
        answer.unwrap()[9..12].to_owned()
    }

    /// Asserts that a client with the token is answered within a second.
    #[track_caller]
    fn answers_at_once(&self) {
        let begin = Instant::now();
        assert_eq!(self.status(&format!("Bearer {}", self.token)), "200");
        let took = begin.elapsed();
        assert!(took < Duration::from_secs(1), "{took:?}");
    }

    /// Connects from an address of this machine.
    fn stranger(&self, from: Ipv4Addr) -> TcpStream {
        let socket = net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        net::bind(&socket, &SocketAddrV4::new(from, 0)).unwrap();
        let to = SocketAddrV4::new(Ipv4Addr::LOCALHOST, self.running.address().port());
        net::connect(&socket, &to).unwrap();
        TcpStream::from(socket)
    }
}

#[test]
fn who_is_named_is_let_in_by_tls_and_nobody_else() {
    let service = Service::start("0.0.0.0:0");
    let bearer = format!("Bearer {}", service.token);
    assert_eq!(service.status(&bearer), "200");
    // ann:correct horse, twice: the second time it is cached.
    for _ in 0..2 {
        assert_eq!(service.status("Basic YW5uOmNvcnJlY3QgaG9yc2U="), "200");
    }
    let asked = service.get(&service.certificate, "/", "").unwrap();
    assert!(asked.starts_with("HTTP/1.1 401"), "{asked}");
    assert!(
        asked.contains("www-authenticate: Basic realm=\"weirgate\""),
        "{asked}"
    );
    assert!(asked.contains("x-frame-options: DENY"), "{asked}");
    let secure = "strict-transport-security: max-age=2592000";
    assert!(asked.contains(secure), "{asked}");
    assert!(!asked.contains("<html"), "{asked}");
    // Without TLS there is no valid HTTP answer.
    let mut plain =
        TcpStream::connect((Ipv4Addr::LOCALHOST, service.running.address().port())).unwrap();
    plain
        .set_read_timeout(Some(Duration::from_mins(1)))
        .unwrap();
    plain
        .write_all(b"GET /api/about HTTP/1.1\r\nHost: localhost\r\n\r\n")
        .unwrap();
    let mut answer = Vec::new();
    let _ = plain.read_to_end(&mut answer);
    assert!(!answer.starts_with(b"HTTP"), "{answer:?}");
    assert_eq!(service.status("Basic YW5uOndyb25n"), "401");
    // A client that guesses further must wait. One guess is permitted every ten seconds, which may
    // be just then.
    let wrong = "Basic YW5uOndyb25n";
    let mut guesses = (0..50).map(|_| service.get(&service.certificate, "/", wrong).unwrap());
    let late = guesses.find(|answer| answer.starts_with("HTTP/1.1 429"));
    assert!(late.unwrap().contains("retry-after: "));
    // A token is still accepted, and so is a cached password.
    assert_eq!(service.status(&bearer), "200");
    assert_eq!(service.status("Basic YW5uOmNvcnJlY3QgaG9yc2U="), "200");
}

/// Wrong tokens do not lock out a valid one, from the same address or behind the same proxy.
#[test]
fn wrong_tokens_do_not_lock_a_right_one_out() {
    let service = Service::start("127.0.0.1:0");
    for guess in ["Bearer nobody", "Digest x"].iter().cycle().take(20) {
        assert_eq!(service.status(guess), "401");
    }
    service.answers_at_once();
}

/// Silent clients from two networks and from a hundred.
#[test]
fn strangers_do_not_keep_a_token_out() {
    let service = Service::start("127.0.0.1:0");
    let idle = |networks: std::ops::Range<u8>, each: usize| -> Vec<TcpStream> {
        let from = networks.map(|network| Ipv4Addr::new(127, 1, network, 1));
        from.flat_map(|from| std::iter::repeat_n(from, each))
            .map(|from| service.stranger(from))
            .collect()
    };
    let two = idle(0..2, 16);
    service.answers_at_once();
    let hundred = idle(2..102, 10);
    service.answers_at_once();
    // Also from the token's own network.
    let own: Vec<TcpStream> = (0..40)
        .map(|_| service.stranger(Ipv4Addr::LOCALHOST))
        .collect();
    service.answers_at_once();
    drop((two, hundred, own));
}

/// A permitted client with as many connections as there are slots keeps no other network out.
#[test]
fn one_network_does_not_hold_all_connections() {
    let service = Service::start("127.0.0.1:0");
    let request = format!(
        "GET /api/about HTTP/1.1\r\nHost: box.example\r\nAuthorization: Bearer {}\r\n\r\n",
        service.token
    );
    let mut crowd: Vec<_> = (0..32)
        .map(|_| {
            let socket = service.stranger(Ipv4Addr::new(127, 2, 0, 1));
            let mut stream = StreamOwned::new(client(&service.certificate), socket);
            stream.write_all(request.as_bytes()).unwrap();
            stream
        })
        .collect();
    let admitted = &mut crowd[..16];
    for stream in admitted {
        let mut line = [0; 12];
        stream.read_exact(&mut line).unwrap();
        assert_eq!(&line, b"HTTP/1.1 200");
    }
    std::thread::sleep(Duration::from_millis(200));
    service.answers_at_once();
    drop(crowd);
}

#[test]
fn a_connection_ends_after_a_request_that_is_not_let_in() {
    let service = Service::with("127.0.0.1:0", false);
    let mut stranger = service.stranger(Ipv4Addr::LOCALHOST);
    let patience = Some(Duration::from_secs(2));
    stranger.set_read_timeout(patience).unwrap();
    let request = b"GET / HTTP/1.1\r\nHost: box.example\r\n\r\n";
    stranger.write_all(request).unwrap();
    let mut answer = String::new();
    stranger.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 401"), "{answer}");
    assert!(answer.contains("connection: close"), "{answer}");
}

#[test]
fn certificates_and_names_are_followed() {
    let service = Service::start("127.0.0.1:0");
    let bearer = format!("Bearer {}", service.token);
    assert_eq!(service.status(&bearer), "200");
    // A key that does not match any certificate changes nothing.
    let folder = service.folder.path();
    let good = std::fs::read_to_string(folder.join("key.pem")).unwrap();
    replace(&folder.join("key.pem"), "nothing\n");
    service.running.hears("the old certificate stays in use");
    assert_eq!(service.status(&bearer), "200");
    replace(&folder.join("key.pem"), &good);
    service.running.hears("the certificate was read again");
    // Renewal: the key is replaced first, so the two files do not match for a moment.
    let renewed = certificate(folder);
    service.running.hears("the certificate was read again");
    let answer = service.get(&renewed, "/api/about", &bearer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let old = service.get(&service.certificate, "/api/about", &bearer);
    assert!(old.unwrap_err().contains("certificate"));
    // A user who is removed from the list is refused at once, even if cached.
    let (other, line) = token("other").unwrap();
    replace(&folder.join("access"), &format!("{line}\n"));
    service.running.hears("who may look was read again");
    let answer = service.get(&renewed, "/api/about", &bearer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 401"), "{answer}");
    let bearer = format!("Bearer {other}");
    let answer = service.get(&renewed, "/metrics", &bearer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(
        answer.contains("\nweirgate_access_refused_total 1\n"),
        "{answer}"
    );
    // An invalid list leaves the previous one in force.
    replace(&folder.join("access"), "other token 00\n");
    service
        .running
        .hears("access:1: a hash has 64 hexadecimal digits");
    let answer = service.get(&renewed, "/api/about", &bearer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

#[test]
fn what_lacks_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let both = secured(folder.path(), "0.0.0.0:0");
    for (config, part) in [
        (
            Config {
                tls: None,
                ..both.clone()
            },
            "there is no TLS",
        ),
        (
            Config {
                access: None,
                ..both.clone()
            },
            "who may look is not configured",
        ),
        (
            Config {
                tls: None,
                access: None,
                ..both.clone()
            },
            "there is neither",
        ),
        (both.clone(), "cert.pem: "),
    ] {
        let refusal = refused(config);
        assert!(refusal.contains(part), "{refusal}");
    }
    certificate(folder.path());
    let refusal = refused(both.clone());
    assert!(refusal.contains("access: No such file"), "{refusal}");
    std::fs::write(folder.path().join("access"), "a token\nb/ token\n").unwrap();
    let refusal = refused(both.clone());
    assert!(refusal.contains("access:1: a line is"), "{refusal}");
    assert!(refusal.contains("access:2: `b/` is no name"), "{refusal}");
    std::fs::write(folder.path().join("access"), "# nobody\n").unwrap();
    assert!(refused(both.clone()).contains("weirgate watch admit"));
    let other = rcgen::generate_simple_self_signed(vec![String::from("localhost")]).unwrap();
    let key = folder.path().join("key.pem");
    std::fs::write(&key, other.signing_key.serialize_pem()).unwrap();
    let refusal = refused(both);
    assert!(
        refusal.contains("is") && refusal.contains("the key of this certificate"),
        "{refusal}"
    );
    assert!(!folder.path().join("deep").exists());
}
