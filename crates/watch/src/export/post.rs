// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sends one message to a receiver over HTTP/1.1, and reads its response.

use crate::export::encode;
use crate::export::receiver::{Kind, Receiver};
use crate::stream::Stream;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::header::{self, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// The timeout from the name lookup to the end of the response.
const PATIENCE: Duration = Duration::from_secs(30);
/// The largest part of a response's body that is read, in bytes.
const ANSWER: usize = 65_536;
/// The largest part of a response that is shown, in characters.
const SHOWN: usize = 160;

/// Why a message was not accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failed {
    /// It may be accepted later; after a time, if the receiver named one.
    Later(String, Option<Duration>),
    /// It will never be accepted.
    Never(String),
}

/// Sends a message.
pub(super) async fn post(
    receiver: &Receiver,
    tls: Option<&Arc<ClientConfig>>,
    body: Bytes,
) -> Result<(), Failed> {
    let work = tokio::time::timeout(PATIENCE, exchange(receiver, tls, body));
    work.await.unwrap_or_else(|_| {
        let text = format!("no answer within {} s", PATIENCE.as_secs());
        Err(Failed::Later(text, None))
    })
}

fn later(error: impl Into<Box<dyn Error + Send + Sync>>) -> Failed {
    Failed::Later(error.into().to_string(), None)
}

async fn exchange(
    receiver: &Receiver,
    tls: Option<&Arc<ClientConfig>>,
    body: Bytes,
) -> Result<(), Failed> {
    let address = (&*receiver.host, receiver.port);
    let stream = TcpStream::connect(address).await.map_err(later)?;
    let stream: Box<dyn Stream> = match tls.filter(|_| receiver.tls) {
        None if receiver.tls => return Err(later("there is no TLS")),
        None => Box::new(stream),
        Some(config) => {
            let name = ServerName::try_from(receiver.host.clone()).map_err(later)?;
            let shaken = TlsConnector::from(Arc::clone(config)).connect(name, stream);
            Box::new(shaken.await.map_err(later)?)
        }
    };
    deliver(receiver, stream, body).await
}

/// Sends a message on a connection, and interprets the response.
///
/// # Errors
///
/// Returns [`Failed`] if the message was not accepted.
pub async fn deliver(
    receiver: &Receiver,
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    body: Bytes,
) -> Result<(), Failed> {
    let request = request(receiver, body)?;
    judged(receiver.kind, &spoken(Box::new(stream), request).await?)
}

fn request(receiver: &Receiver, body: Bytes) -> Result<Request<Full<Bytes>>, Failed> {
    let (encoding, kind) = match receiver.kind {
        Kind::RemoteWrite => ("snappy", "application/x-protobuf"),
        Kind::Otlp => ("gzip", "application/x-protobuf"),
    };
    let mut request = Request::new(Full::new(body));
    *request.method_mut() = Method::POST;
    *request.uri_mut() = receiver.path.parse().map_err(later)?;
    let headers = request.headers_mut();
    let host = HeaderValue::from_str(&receiver.authority()).map_err(later)?;
    headers.insert(header::HOST, host);
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static(encoding));
    let agent = HeaderValue::from_static(concat!("weirgate/", env!("CARGO_PKG_VERSION")));
    headers.insert(header::USER_AGENT, agent);
    if receiver.kind == Kind::RemoteWrite {
        let version = HeaderValue::from_static("0.1.0");
        headers.insert("x-prometheus-remote-write-version", version);
    }
    if let Some(path) = &receiver.authorization {
        // Read it each time, because the file may be replaced.
        let text = std::fs::read_to_string(path)
            .map_err(|error| later(format!("{}: {error}", path.display())))?;
        let mut value = HeaderValue::from_str(text.trim()).map_err(|_| {
            later(format!(
                "{}: it holds no line such as `Bearer TOKEN`",
                path.display()
            ))
        })?;
        value.set_sensitive(true);
        headers.insert(header::AUTHORIZATION, value);
    }
    Ok(request)
}

/// Sends a request on its own connection, and returns the head and body of the response.
async fn spoken(
    stream: Box<dyn Stream>,
    request: Request<Full<Bytes>>,
) -> Result<Response<Bytes>, Failed> {
    let shaken = http1::handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = shaken.map_err(later)?;
    let talk = async {
        let (head, body) = sender
            .send_request(request)
            .await
            .map_err(later)?
            .into_parts();
        let body = Limited::new(body, ANSWER).collect().await;
        // The body matters only for errors.
        let body = body.map_or_else(|_| Bytes::new(), http_body_util::Collected::to_bytes);
        Ok(Response::from_parts(head, body))
    };
    tokio::pin!(talk);
    tokio::select! {
        answer = &mut talk => answer,
        ended = connection => match ended {
            Ok(()) => talk.await,
            Err(error) => Err(later(error)),
        },
    }
}

/// Interprets a response. Both specifications list the statuses after which to retry: 429 and
/// 5xx for remote write; 429, 502, 503 and 504 for OTLP.
fn judged(kind: Kind, answer: &Response<Bytes>) -> Result<(), Failed> {
    let status = answer.status();
    let partial = || encode::rejected(answer.body());
    if status.is_success() {
        return match (kind, partial()) {
            (Kind::Otlp, Some((count, why))) => {
                let why = plain(why.as_bytes());
                Err(Failed::Never(format!(
                    "{count} values were rejected: {why}"
                )))
            }
            _ => Ok(()),
        };
    }
    let words = plain(answer.body());
    let text = format!(
        "it answers {status}{}{words}",
        if words.is_empty() { "" } else { ": " }
    );
    let wait = answer.headers().get(header::RETRY_AFTER);
    let wait = wait.and_then(|wait| wait.to_str().ok()?.parse().ok());
    let again = match kind {
        Kind::RemoteWrite => status.is_server_error(),
        Kind::Otlp => matches!(status.as_u16(), 502..=504),
    };
    if again || status == StatusCode::TOO_MANY_REQUESTS {
        return Err(Failed::Later(text, wait.map(Duration::from_secs)));
    }
    Err(Failed::Never(text))
}

/// Returns the beginning of an untrusted text in a form that is safe to display.
fn plain(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let letters = text.trim().chars().take(SHOWN);
    letters
        .map(|letter| if letter.is_control() { ' ' } else { letter })
        .collect()
}
