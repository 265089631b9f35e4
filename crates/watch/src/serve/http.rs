// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Answers requests: the page, what is now, what was, OpenMetrics. Nothing that
//! is asked here changes anything.

use crate::WatchError;
use crate::export::openmetrics::openmetrics;
use crate::lock::lock;
use crate::serve::answer::{Answer, later, plain, whole};
use crate::serve::auth::Admission;
use crate::serve::config::Listen;
use crate::serve::connection_limit::{ConnectionLimit, Slot};
use crate::serve::history::read;
use crate::serve::host_names::host_names;
use crate::serve::pages::FILES;
use crate::serve::query::Query;
use crate::serve::shared::{HistoryState, Shared};
use crate::serve::slow_client_timeout::SlowClientTimeout;
use http_body_util::channel::Channel;
use http_body_util::{Either, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::{self, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

/// A request's head has come by then.
const HEAD: Duration = Duration::from_secs(5);
/// Who takes nothing of an answer for so long is left.
const STALLED: Duration = Duration::from_secs(30);
/// A connection ends then; browsers open another.
const LIFE: Duration = Duration::from_mins(30);

/// Listens everywhere; ends when what is returned is dropped.
pub(crate) async fn listen(
    places: &[Listen],
    shared: &Arc<Shared>,
) -> Result<(JoinSet<()>, Vec<SocketAddr>), WatchError> {
    let mut servers = JoinSet::new();
    let mut bound = Vec::new();
    let limit = Arc::new(ConnectionLimit::new(shared.behind_proxy));
    for place in places {
        let listener = match place {
            Listen::Address(address) => {
                let failed = |source| WatchError::Listen {
                    place: address.to_string(),
                    source,
                };
                let listener = TcpListener::bind(address).await.map_err(failed)?;
                bound.push(listener.local_addr().map_err(failed)?);
                Listener::Tcp(listener)
            }
            Listen::Socket(path) => Listener::Unix(unix(path)?),
        };
        servers.spawn(accepting(listener, Arc::clone(shared), Arc::clone(&limit)));
    }
    Ok((servers, bound))
}

enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

impl Listener {
    /// A connection, and whose; of a Unix socket, nobody's.
    async fn accept(&self) -> io::Result<(Box<dyn Stream>, Option<IpAddr>)> {
        Ok(match self {
            Self::Tcp(listener) => {
                let (stream, from) = listener.accept().await?;
                (Box::new(stream), Some(from.ip()))
            }
            Self::Unix(listener) => (Box::new(listener.accept().await?.0), None),
        })
    }
}

/// Takes connections; all end when this is dropped.
async fn accepting(listener: Listener, shared: Arc<Shared>, limit: Arc<ConnectionLimit>) {
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        match listener.accept().await {
            Ok((stream, from)) => {
                let slot = Arc::new(limit.enter(from.unwrap_or(Ipv4Addr::UNSPECIFIED.into())));
                let shared = Arc::clone(&shared);
                connections.spawn(async move {
                    tokio::select! {
                        () = connection(stream, from, &slot, shared) => {}
                        () = slot.ended() => {}
                    }
                });
            }
            // Out of descriptors: those that are open end some time.
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
}

/// A socket in place of one that nobody listens at any more.
fn unix(path: &Path) -> Result<UnixListener, WatchError> {
    let failed = |source| WatchError::Listen {
        place: path.display().to_string(),
        source,
    };
    let old = std::fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket());
    if old && std::os::unix::net::UnixStream::connect(path).is_err() {
        std::fs::remove_file(path).map_err(failed)?;
    }
    UnixListener::bind(path).map_err(failed)
}

async fn connection(
    stream: Box<dyn Stream>,
    from: Option<IpAddr>,
    slot: &Arc<Slot>,
    shared: Arc<Shared>,
) {
    let stream: Box<dyn Stream> = Box::new(SlowClientTimeout::new(stream, STALLED));
    // A Unix socket is this machine's own.
    let tls = shared.auth.tls().filter(|_| from.is_some());
    let stream: Box<dyn Stream> = match tls {
        None => stream,
        Some(config) => {
            let shaken = TlsAcceptor::from(config).accept(stream);
            match tokio::time::timeout(HEAD, shaken).await {
                Ok(Ok(stream)) => Box::new(stream),
                _ => return,
            }
        }
    };
    let service = service_fn(move |request| {
        let (shared, slot) = (Arc::clone(&shared), Arc::clone(slot));
        async move { Ok::<_, Infallible>(answer(request, from, &slot, &shared).await) }
    });
    let work = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .max_buf_size(32_768)
        .serve_connection(TokioIo::new(stream), service);
    // What a client does wrong is between it and hyper.
    let _ = tokio::time::timeout(LIFE, work).await;
}

async fn answer(
    request: Request<Incoming>,
    from: Option<IpAddr>,
    slot: &Slot,
    shared: &Arc<Shared>,
) -> Answer {
    let head = request.method() == Method::HEAD;
    let shown = request.headers().get(header::AUTHORIZATION);
    let admission = shared.auth.admit(shown.map(HeaderValue::as_bytes), from);
    let admission = admission.await;
    let let_in = admission == Admission::In;
    let mut answer = if !let_in {
        kept_out(admission)
    } else if !shared.behind_proxy && !shared.auth.asks() && !asked_by_address(&request) {
        // A page of somebody else's whose name was made to mean this machine.
        plain(
            StatusCode::MISDIRECTED_REQUEST,
            "ask by address or as localhost, or start with --behind-proxy\n",
        )
    } else if !slot.admit().await {
        later("all connections are in use; try again later\n", 5)
    } else if request.method() != Method::GET && !head {
        let mut answer = plain(
            StatusCode::METHOD_NOT_ALLOWED,
            "nothing can be changed here\n",
        );
        let allowed = HeaderValue::from_static("GET, HEAD");
        answer.headers_mut().insert(header::ALLOW, allowed);
        answer
    } else {
        routed(&request, shared).await
    };
    if !let_in || !slot.is_admitted() {
        let close = HeaderValue::from_static("close");
        answer.headers_mut().insert(header::CONNECTION, close);
    }
    if head {
        *answer.body_mut() = Either::Left(Full::default());
    }
    for (name, value) in [
        (
            header::CONTENT_SECURITY_POLICY,
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        ),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-store"),
    ] {
        answer
            .headers_mut()
            .insert(name, HeaderValue::from_static(value));
    }
    let others = [
        ("cross-origin-resource-policy", "same-origin"),
        ("cross-origin-opener-policy", "same-origin"),
    ];
    // Browsers do not ask without TLS again, for a month.
    let tls = ("strict-transport-security", "max-age=2592000");
    let tls = (from.is_some() && shared.auth.tls().is_some()).then_some(tls);
    for (name, value) in others.into_iter().chain(tls) {
        answer
            .headers_mut()
            .insert(name, HeaderValue::from_static(value));
    }
    answer
}

/// What somebody gets who is not let in.
fn kept_out(admission: Admission) -> Answer {
    let (status, text, name, value) = match admission {
        Admission::Later(seconds) => (
            StatusCode::TOO_MANY_REQUESTS,
            "too many wrong passwords came from your address; try again later\n",
            header::RETRY_AFTER,
            HeaderValue::from(seconds),
        ),
        _ => (
            StatusCode::UNAUTHORIZED,
            "a name with a password or token is asked for, or a bearer token\n",
            header::WWW_AUTHENTICATE,
            HeaderValue::from_static("Basic realm=\"weirgate\", charset=\"UTF-8\""),
        ),
    };
    let mut answer = plain(status, text);
    answer.headers_mut().insert(name, value);
    answer
}

/// Whether a request names this machine by address or as localhost; a Unix
/// socket's may name anything, and HTTP/1.0 nothing.
fn asked_by_address(request: &Request<Incoming>) -> bool {
    let Some(host) = request.headers().get(header::HOST) else {
        return true;
    };
    let Ok(host) = host.to_str() else {
        return false;
    };
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|digit| digit.is_ascii_digit()) => name,
        _ => host,
    };
    let bare = name.trim_start_matches('[').trim_end_matches(']');
    name.is_empty() || name == "localhost" || bare.parse::<IpAddr>().is_ok()
}

const JSON: &str = "application/json";
/// What is read from the history.
const READ: [&str; 4] = ["/api/series", "/api/events", "/api/read", "/api/read.csv"];

async fn routed(request: &Request<Incoming>, shared: &Arc<Shared>) -> Answer {
    let path = request.uri().path();
    if let Some((_, kind, text)) = FILES.iter().find(|file| file.0 == path) {
        return whole(StatusCode::OK, kind, (*text).to_owned());
    }
    let query = request.uri().query().unwrap_or_default();
    let seen = || Arc::clone(&shared.seen.borrow());
    match path {
        "/api/now" => whole(StatusCode::OK, JSON, seen().json.clone()),
        "/api/about" => whole(StatusCode::OK, JSON, about(shared)),
        "/api/live" => live(shared),
        "/metrics" => {
            let seen = seen();
            let own = shared.own(seen.failing.is_some());
            let text = openmetrics(&seen.changes, &own);
            let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
            whole(StatusCode::OK, kind, text)
        }
        _ => match READ.into_iter().find(|known| *known == path) {
            Some(path) => match Query::parse(query) {
                Ok(query) => read(path, query, shared).await,
                Err(wrong) => plain(StatusCode::BAD_REQUEST, &format!("{wrong}\n")),
            },
            None => plain(StatusCode::NOT_FOUND, "there is nothing here\n"),
        },
    }
}

/// What changes seldom: the legend, names of hosts, and how the history is.
fn about(shared: &Shared) -> String {
    let HistoryState { status, span } = lock(&shared.history_state).clone();
    let untimed = *lock(&shared.untimed);
    serde_json::json!({
        "version": env!("CARGO_PKG_VERSION"),
        "host_names": host_names(),
        "legend": &*Arc::clone(&lock(&shared.legend)),
        "span_ms": span,
        "history": {
            "bytes": status.size,
            "spans_ms": status.spans,
            "steps_ms": weirgate_history::STEPS,
            "series": status.series,
            "left_out": status.refused,
            "lost": status.lost,
            "failing": shared.seen.borrow().failing.clone(),
        },
        "without_privilege": lock(&shared.refused).clone(),
        "without_packets": lock(&shared.blind).clone(),
        "times_left_out": untimed.map(|untimed| untimed.left_out),
    })
    .to_string()
}

/// Server-sent events: every look, for as long as the client keeps up. One that
/// does not gets fewer.
fn live(shared: &Shared) -> Answer {
    let Ok(place) = Arc::clone(&shared.live).try_acquire_owned() else {
        return later("too many are told each look; try again later\n", 5);
    };
    let (mut send, body) = Channel::new(1);
    let mut seen = shared.seen.clone();
    tokio::spawn(async move {
        let _place = place;
        loop {
            let json = seen.borrow_and_update().json.clone();
            if !json.is_empty() {
                let data = Bytes::from(format!("data: {json}\n\n"));
                if send.send_data(data).await.is_err() {
                    return;
                }
            }
            if seen.changed().await.is_err() {
                return;
            }
        }
    });
    let mut answer = Response::new(Either::Right(body));
    let kind = HeaderValue::from_static("text/event-stream");
    answer.headers_mut().insert(header::CONTENT_TYPE, kind);
    answer
}
