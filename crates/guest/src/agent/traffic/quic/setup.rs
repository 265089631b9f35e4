// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The set-up of both ends of a connection: keys, TLS, transport parameters. Nothing here is
//! secret, since a key protects only this run.

use super::congestion::Counting;
use anyhow::{Context, Result};
use quinn_proto::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn_proto::{
    ClientConfig, ConnectionId, ConnectionIdGenerator, EndpointConfig, ServerConfig,
    TransportConfig, VarInt,
};
use ring::{hkdf, hmac};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, ring as provider,
    verify_tls13_signature_with_raw_key,
};
use rustls::pki_types::{
    CertificateDer, PrivatePkcs8KeyDer, ServerName, SubjectPublicKeyInfoDer, UnixTime,
};
use rustls::server::AlwaysResolvesServerRawPublicKeys;
use rustls::sign::CertifiedKey;
use rustls::version::TLS13;
use rustls::{CertificateError, DigitallySignedStruct, Error, PeerMisbehaved, SignatureScheme};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;
use weirgate_experiment::{QuicSettings, Random};

/// The application protocol (ALPN) of both ends. It is not a registered name, but QUIC requires
/// one (RFC 9001 section 8.1).
const PROTOCOL: &[u8] = b"weirgate-bulk";

/// The prefix of an Ed25519 private key in PKCS #8, before the 32 bytes of the key (RFC 8410
/// section 7).
const ED25519: [u8; 16] = [
    0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20,
];

/// Length of a connection ID in bytes.
const ID: usize = 8;

/// The data that a connection may have in flight, in bytes, over all its streams. It is more than
/// congestion control allows on the lab's lines.
const WINDOW: u32 = 64 << 20;

/// The configuration of both ends of one connection.
pub struct Setup {
    /// The endpoints of the connecting and of the accepting end.
    pub endpoints: [Arc<EndpointConfig>; 2],
    /// The configuration of the connecting end.
    pub client: ClientConfig,
    /// The configuration of the accepting end.
    pub server: Arc<ServerConfig>,
    /// The bytes in flight of the connecting and of the accepting end.
    pub in_flight: [Arc<AtomicU64>; 2],
    /// Whether packets are sent with an ECN field.
    pub ecn: bool,
}

impl Setup {
    /// Returns keys and parameters. Random values come from `random`.
    pub fn new(settings: &QuicSettings, random: &mut Random) -> Result<Self> {
        let in_flight: [Arc<AtomicU64>; 2] = Default::default();
        let [near, far] = &in_flight;
        let provider = Arc::new(provider());
        let key = key(&provider, &draw(random)).context("make a key")?;
        let client = tls_client(&provider, &key)?;
        let mut client = ClientConfig::new(Arc::new(client));
        client.transport_config(transport(settings, near));
        let first = id(random);
        client.initial_dst_cid_provider(Arc::new(move || first));
        let server = tls_server(&provider, key)?;
        let tokens = hkdf::Salt::new(hkdf::HKDF_SHA256, &[]).extract(&draw(random));
        let mut server = ServerConfig::new(Arc::new(server), Arc::new(tokens));
        server.transport_config(transport(settings, far));
        Ok(Self {
            endpoints: [endpoint(random), endpoint(random)],
            client,
            server: Arc::new(server),
            in_flight,
            ecn: settings.ecn,
        })
    }
}

fn draw(random: &mut Random) -> [u8; 32] {
    let mut bytes = [0; 32];
    for part in bytes.chunks_exact_mut(8) {
        part.copy_from_slice(&random.bits().to_be_bytes());
    }
    bytes
}

/// Returns a connection ID. Its first byte is the second byte of short packets, where other
/// values could look like a stamp of the lab's datagrams.
fn id(random: &mut Random) -> ConnectionId {
    let mut bytes = random.bits().to_be_bytes();
    bytes[0] = 0;
    ConnectionId::new(&bytes)
}

fn endpoint(random: &mut Random) -> Arc<EndpointConfig> {
    let reset_key = hmac::Key::new(hmac::HMAC_SHA256, &draw(random));
    let mut config = EndpointConfig::new(Arc::new(reset_key));
    config.rng_seed(Some(draw(random)));
    let ids = Ids(random.clone());
    random.bits();
    config.cid_generator(move || Box::new(ids.clone()));
    Arc::new(config)
}

/// Generates connection IDs from the seed.
#[derive(Clone)]
struct Ids(Random);

impl ConnectionIdGenerator for Ids {
    fn generate_cid(&mut self) -> ConnectionId {
        id(&mut self.0)
    }

    fn cid_len(&self) -> usize {
        ID
    }

    fn cid_lifetime(&self) -> Option<Duration> {
        None
    }
}

fn transport(settings: &QuicSettings, in_flight: &Arc<AtomicU64>) -> Arc<TransportConfig> {
    let mut config = TransportConfig::default();
    let control = Counting::new(settings.congestion, Arc::clone(in_flight));
    // Every stream has its part of the window, or the first one would fill the sender's buffer.
    let each = WINDOW / u32::from(settings.streams.max(1));
    config
        .congestion_controller_factory(Arc::new(control))
        .allow_spin(settings.spin)
        .stream_receive_window(VarInt::from_u32(each))
        .send_window(WINDOW.into())
        .enable_segmentation_offload(false)
        // As TCP connections do, keep the connection as long as its run lasts.
        .max_idle_timeout(None);
    Arc::new(config)
}

/// Prefers ChaCha20, because the lab's processor has no instructions for AES. quinn-proto needs
/// AES for the first packets, whose keys are public (RFC 9001 section 5.2).
fn provider() -> CryptoProvider {
    CryptoProvider {
        cipher_suites: vec![
            provider::cipher_suite::TLS13_CHACHA20_POLY1305_SHA256,
            provider::cipher_suite::TLS13_AES_128_GCM_SHA256,
        ],
        kx_groups: vec![provider::kx_group::X25519],
        ..provider::default_provider()
    }
}

/// Returns a raw public key (RFC 7250), used in place of a certificate.
fn key(provider: &CryptoProvider, secret: &[u8; 32]) -> Result<Arc<CertifiedKey>> {
    let der = [&ED25519[..], secret].concat();
    let der = PrivatePkcs8KeyDer::from(der);
    let key = provider.key_provider.load_private_key(der.into())?;
    let public = key.public_key().context("it has no public part")?;
    let public = CertificateDer::from(public.to_vec());
    Ok(Arc::new(CertifiedKey::new(vec![public], key)))
}

fn tls_client(provider: &Arc<CryptoProvider>, key: &CertifiedKey) -> Result<QuicClientConfig> {
    let expected = Expected {
        key: key.end_entity_cert()?.as_ref().to_vec(),
        algorithms: provider.signature_verification_algorithms,
    };
    let mut tls = rustls::ClientConfig::builder_with_provider(Arc::clone(provider))
        .with_protocol_versions(&[&TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(expected))
        .with_no_client_auth();
    tls.alpn_protocols = vec![PROTOCOL.to_vec()];
    Ok(QuicClientConfig::try_from(tls)?)
}

fn tls_server(provider: &Arc<CryptoProvider>, key: Arc<CertifiedKey>) -> Result<QuicServerConfig> {
    let mut tls = rustls::ServerConfig::builder_with_provider(Arc::clone(provider))
        .with_protocol_versions(&[&TLS13])?
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(AlwaysResolvesServerRawPublicKeys::new(key)));
    tls.alpn_protocols = vec![PROTOCOL.to_vec()];
    Ok(QuicServerConfig::try_from(tls)?)
}

/// Accepts only the run's own key.
#[derive(Debug)]
struct Expected {
    key: Vec<u8>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for Expected {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if end_entity.as_ref() == self.key {
            Ok(ServerCertVerified::assertion())
        } else {
            Err(CertificateError::UnknownIssuer.into())
        }
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        // QUIC has no TLS 1.2 (RFC 9001 section 4.2).
        Err(PeerMisbehaved::SelectedUnofferedCipherSuite.into())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let key = SubjectPublicKeyInfoDer::from(cert.as_ref());
        verify_tls13_signature_with_raw_key(message, &key, dss, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}
