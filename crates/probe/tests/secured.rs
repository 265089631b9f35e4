// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A file of a web server with TLS fills the line; a certificate that is not
//! trusted is reported, and nothing is fetched.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod near;

use near::Near;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use weirgate_probe::{Bulk, Load, Remote, RemoteError, remote};

/// Starts a server whose file never ends; returns its certificate as PEM.
fn server() -> (SocketAddr, String) {
    let made = rcgen::generate_simple_self_signed(vec![String::from("localhost")]).unwrap();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let connection = ServerConnection::new(Arc::clone(&config)).unwrap();
            let mut stream = StreamOwned::new(connection, stream.unwrap());
            thread::spawn(move || {
                let mut head = [0; 1000];
                // A client that does not trust the certificate sends no request.
                if !matches!(stream.read(&mut head), Ok(1..)) {
                    return;
                }
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n");
                let block = vec![0; 65_536];
                while stream.write_all(&block).is_ok() {}
            });
        }
    });
    (address, made.cert.pem())
}

fn measured(address: SocketAddr, authorities: &Path) -> Result<Remote, RemoteError> {
    let url = format!("https://localhost:{}/large", address.port());
    let bulk = Bulk::parse(&url).unwrap().trusting(authorities.to_owned());
    let load = Load::Bulk(bulk);
    let time = Duration::from_millis(600);
    remote(
        &mut Near::new(Duration::from_micros(10)),
        Some(&load),
        time,
        &mut |_| (),
    )
}

#[test]
fn a_file_by_tls_fills_the_line_where_its_server_is_trusted() {
    let (address, certificate) = server();
    let (other, others) = server();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ca.pem");
    std::fs::write(&file, certificate).unwrap();
    let down = measured(address, &file).unwrap().down.unwrap();
    assert!(down.transfer.bytes > 100_000, "{down:?}");
    let wrong = measured(other, &file).unwrap_err().to_string();
    assert!(wrong.contains("certificate"), "{wrong}");
    std::fs::write(&file, "nothing").unwrap();
    let wrong = measured(other, &file).unwrap_err().to_string();
    assert!(wrong.contains("no usable certificate"), "{wrong}");
    std::fs::write(&file, others).unwrap();
    measured(other, &file).unwrap();
}
