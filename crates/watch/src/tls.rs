// SPDX-License-Identifier: Apache-2.0 OR MIT
//! TLS: the certificate and key of the service, and the certificate authorities to trust when
//! sending.

use crate::WatchError;
use crate::file::read_text;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The locations of the systems' certificate authorities: in Debian and most others, Fedora,
/// OpenWrt, Alpine.
const AUTHORITIES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// The files of a service's certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tls {
    /// The certificate, followed by intermediate ones; PEM.
    pub certificate: PathBuf,
    /// Its private key; PEM.
    pub key: PathBuf,
}

fn wrong(path: &Path, why: impl Into<Box<dyn Error + Send + Sync>>) -> WatchError {
    WatchError::Tls {
        path: path.to_owned(),
        why: why.into().to_string(),
    }
}

fn certificates(text: &str) -> Result<Vec<CertificateDer<'static>>, Box<dyn Error + Send + Sync>> {
    let file = CertificateDer::pem_slice_iter(text.as_bytes());
    let found = file.collect::<Result<Vec<_>, _>>()?;
    if found.is_empty() {
        return Err("there is no certificate in it (PEM)".into());
    }
    Ok(found)
}

fn text(path: &Path) -> Result<String, WatchError> {
    read_text(path).map_err(|error| wrong(path, error))
}

impl Tls {
    /// Reads both files and validates them. [`server`] makes a configuration of the texts.
    pub(crate) fn read(&self) -> Result<(String, String), WatchError> {
        let (chain, key) = (text(&self.certificate)?, text(&self.key)?);
        certificates(&chain).map_err(|error| wrong(&self.certificate, error))?;
        let parsed = PrivateKeyDer::from_pem_slice(key.as_bytes());
        parsed.map_err(|error| wrong(&self.key, error))?;
        server(&chain, &key).map_err(|error| {
            let text = format!(
                "{error}; is {} the key of this certificate?",
                self.key.display()
            );
            wrong(&self.certificate, text)
        })?;
        Ok((chain, key))
    }
}

/// Returns the configuration of a server with a certificate and its key (PEM).
pub(crate) fn server(
    chain: &str,
    key: &str,
) -> Result<Arc<ServerConfig>, Box<dyn Error + Send + Sync>> {
    let (chain, key) = (
        certificates(chain)?,
        PrivateKeyDer::from_pem_slice(key.as_bytes())?,
    );
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// Returns the configuration of a client that trusts the authorities in a file, or those of the
/// system.
pub(crate) fn client(authorities: Option<&Path>) -> Result<Arc<ClientConfig>, WatchError> {
    let of_system = || AUTHORITIES.iter().map(Path::new).find(|path| path.exists());
    let Some(path) = authorities.or_else(of_system) else {
        let why = "the system trusts nobody here; name a file with --send-ca";
        return Err(wrong(Path::new(AUTHORITIES[0]), why));
    };
    let mut roots = RootCertStore::empty();
    // A system's file may contain unusable certificates.
    let found = certificates(&text(path)?).map_err(|error| wrong(path, error))?;
    let (added, _) = roots.add_parsable_certificates(found);
    if added == 0 {
        return Err(wrong(path, "there is no usable certificate in it"));
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| wrong(path, error))?;
    let mut config = builder.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}
