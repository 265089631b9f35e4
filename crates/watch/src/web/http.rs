// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Answers requests with the page and the collector's data. Requests cannot change anything.

use crate::circuits::query::CircuitsQuery;
use crate::settings::Settings;
use crate::stream::Stream;
use crate::web::answer::{Answer, later, plain, whole};
use crate::web::auth::{Admission, Auth};
use crate::web::collector::Collector;
use crate::web::connection_limit::{ConnectionLimit, LIVE, Slot};
use crate::web::local_users::Sockets;
use crate::web::pages::FILES;
use crate::web::query::Query;
use crate::web::slow_client_timeout::SlowClientTimeout;
use http_body_util::{Either, Full};
use hyper::body::Incoming;
use hyper::header::{self, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use rustix::net::AddressFamily;
use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::{OnceCell, Semaphore};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

/// The timeout for the head of a request.
const HEAD: Duration = Duration::from_secs(5);
/// A connection whose client accepts nothing for this long is closed.
const STALLED: Duration = crate::channel::STALLED;
/// The longest lifetime of a connection; browsers open another.
const LIFE: Duration = Duration::from_mins(30);

/// The data and limits for answering requests.
pub(crate) struct Site {
    behind_proxy: bool,
    /// Local users who may see the data if there is no access list.
    users: Vec<u32>,
    pub(crate) auth: Arc<Auth>,
    sockets: Arc<Sockets>,
    collector: Arc<Collector>,
    /// Permits for clients that follow every look.
    live: Arc<Semaphore>,
}

impl Site {
    pub(crate) fn new(
        settings: &Settings,
        auth: Auth,
        sockets: Sockets,
        collector: Arc<Collector>,
    ) -> Self {
        Self {
            behind_proxy: settings.behind_proxy,
            users: settings.users.clone(),
            auth: Arc::new(auth),
            sockets: Arc::new(sockets),
            collector,
            live: Arc::new(Semaphore::new(LIVE)),
        }
    }

    /// Returns whether the local user of a connection decides about its requests.
    fn looks_at_users(&self) -> bool {
        !self.behind_proxy && !self.auth.asks()
    }

    /// Returns whether a connection belongs to a permitted user.
    async fn is_of_user(&self, ends: Ends) -> bool {
        let sockets = Arc::clone(&self.sockets);
        let found = tokio::task::spawn_blocking(move || sockets.owner(ends.remote, ends.own));
        let user = found.await.ok().and_then(Result::ok).flatten();
        user.is_some_and(|user| self.users.contains(&user))
    }
}

/// The two ends of a TCP connection.
#[derive(Debug, Clone, Copy)]
struct Ends {
    own: SocketAddr,
    remote: SocketAddr,
}

/// Accepts connections on all of these sockets until the returned value is dropped.
pub(crate) fn listen(sockets: Vec<OwnedFd>, site: &Arc<Site>) -> io::Result<JoinSet<()>> {
    let mut servers = JoinSet::new();
    let limit = Arc::new(ConnectionLimit::new(
        site.behind_proxy,
        site.auth.tls().is_some(),
    ));
    for socket in sockets {
        let listener = match rustix::net::sockopt::socket_domain(&socket)? {
            AddressFamily::UNIX => Listener::Unix(UnixListener::from_std(socket.into())?),
            _ => Listener::Tcp(TcpListener::from_std(socket.into())?),
        };
        servers.spawn(accepting(listener, Arc::clone(site), Arc::clone(&limit)));
    }
    Ok(servers)
}

enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Listener {
    /// Accepts a connection, and returns its ends; a Unix socket has none.
    async fn accept(&self) -> io::Result<(Box<dyn Stream>, Option<Ends>)> {
        Ok(match self {
            Self::Tcp(listener) => {
                let (stream, remote) = listener.accept().await?;
                let own = stream.local_addr()?;
                (Box::new(stream), Some(Ends { own, remote }))
            }
            Self::Unix(listener) => (Box::new(listener.accept().await?.0), None),
        })
    }
}

/// Accepts connections; all of them end when this is dropped.
async fn accepting(listener: Listener, site: Arc<Site>, limit: Arc<ConnectionLimit>) {
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        match listener.accept().await {
            Ok((stream, ends)) => {
                let from = ends.map(|ends| ends.remote.ip());
                let slot = Arc::new(limit.enter(from));
                let site = Arc::clone(&site);
                connections.spawn(async move {
                    tokio::select! {
                        () = connection(stream, ends, &slot, site) => {}
                        () = slot.ended() => {}
                    }
                });
            }
            // No descriptors are left: wait until other connections end.
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
}

async fn connection(
    stream: Box<dyn Stream>,
    ends: Option<Ends>,
    slot: &Arc<Slot>,
    site: Arc<Site>,
) {
    let stream: Box<dyn Stream> = Box::new(SlowClientTimeout::new(stream, STALLED));
    // A Unix socket is local and needs no TLS.
    let tls = site.auth.tls().filter(|_| ends.is_some());
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
    let client = Arc::new(Client {
        ends,
        slot: Arc::clone(slot),
        may_look: OnceCell::new(),
    });
    let service = service_fn(move |request| {
        let (site, client) = (Arc::clone(&site), Arc::clone(&client));
        async move { Ok::<_, Infallible>(answer(request, &client, &site).await) }
    });
    let work = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .max_buf_size(32_768)
        .serve_connection(TokioIo::new(stream), service);
    // Ignore protocol errors of the client.
    let _ = tokio::time::timeout(LIFE, work).await;
}

/// The client at the other end of a connection.
struct Client {
    ends: Option<Ends>,
    slot: Arc<Slot>,
    /// Whether its user is permitted; looked up once.
    may_look: OnceCell<bool>,
}

impl Client {
    /// Returns whether a request is permitted as far as that depends on the connecting user. For
    /// a Unix socket, the permissions of its folder decide.
    async fn may_look(&self, site: &Site) -> bool {
        let Some(ends) = self.ends.filter(|_| site.looks_at_users()) else {
            return true;
        };
        let look_up = || site.is_of_user(ends);
        *self.may_look.get_or_init(look_up).await
    }
}

async fn answer(request: Request<Incoming>, client: &Client, site: &Arc<Site>) -> Answer {
    let head = request.method() == Method::HEAD;
    let shown = request.headers().get(header::AUTHORIZATION);
    let from = client.ends.map(|ends| ends.remote.ip());
    let admission = site.auth.admit(shown.map(HeaderValue::as_bytes), from);
    let admission = admission.await;
    let let_in = admission == Admission::In && client.may_look(site).await;
    let mut answer = if admission != Admission::In {
        site.collector.refused(site.auth.refused());
        kept_out(admission)
    } else if !let_in {
        plain(
            StatusCode::FORBIDDEN,
            "without a token, only root and the user of `weirgate watch` have access; permit \
             others with --user NAME, or by tokens with --access FILE\n",
        )
    } else if site.looks_at_users() && !asked_by_address(&request) {
        // DNS rebinding: a page of another site whose name resolves to this machine.
        plain(
            StatusCode::MISDIRECTED_REQUEST,
            "ask by address or as localhost, or start with --behind-proxy\n",
        )
    } else if !client.slot.admit().await {
        later(
            "all connections, or those of your network, are in use; try again later\n",
            5,
        )
    } else if request.method() != Method::GET && !head {
        let mut answer = plain(
            StatusCode::METHOD_NOT_ALLOWED,
            "nothing can be changed here\n",
        );
        let allowed = HeaderValue::from_static("GET, HEAD");
        answer.headers_mut().insert(header::ALLOW, allowed);
        answer
    } else {
        routed(&request, site).await
    };
    if !let_in || !client.slot.is_admitted() {
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
    // For a month, browsers use only TLS.
    let tls = ("strict-transport-security", "max-age=2592000");
    let tls = (from.is_some() && site.auth.tls().is_some()).then_some(tls);
    for (name, value) in others.into_iter().chain(tls) {
        answer
            .headers_mut()
            .insert(name, HeaderValue::from_static(value));
    }
    answer
}

/// Returns the response for a refused request.
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
            "log in with a name and a password or token, or send a bearer token\n",
            header::WWW_AUTHENTICATE,
            HeaderValue::from_static("Basic realm=\"weirgate\", charset=\"UTF-8\""),
        ),
    };
    let mut answer = plain(status, text);
    answer.headers_mut().insert(name, value);
    answer
}

/// Returns whether the host of a request is an address or localhost. It is not checked on Unix
/// sockets, and is absent in HTTP/1.0.
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

/// Checks a query; an error describes the problem.
type Check = fn(&str) -> Result<(), String>;
const OF_HISTORY: Check = |query| Query::parse(query).map(drop);
const OF_CIRCUITS: Check = |query| CircuitsQuery::parse(query).map(drop);

/// The requests to the collector: path, type of the answer, and check of the query.
const ASKED: [(&str, &str, Option<Check>); 9] = [
    ("/api/now", JSON, None),
    ("/api/about", JSON, None),
    ("/api/circuits", JSON, Some(OF_CIRCUITS)),
    (LOOKS, "text/event-stream", None),
    (
        "/metrics",
        "application/openmetrics-text; version=1.0.0; charset=utf-8",
        None,
    ),
    ("/api/series", JSON, Some(OF_HISTORY)),
    ("/api/events", JSON, Some(OF_HISTORY)),
    ("/api/read", JSON, Some(OF_HISTORY)),
    ("/api/read.csv", "text/csv; charset=utf-8", Some(OF_HISTORY)),
];
const JSON: &str = "application/json";
/// Sends every look as it is taken. A client that is too slow gets fewer.
const LOOKS: &str = "/api/live";

async fn routed(request: &Request<Incoming>, site: &Arc<Site>) -> Answer {
    let path = request.uri().path();
    if let Some(file) = FILES.iter().find(|file| file.path == path) {
        return whole(StatusCode::OK, file.kind, file.content());
    }
    let Some((path, kind, check)) = ASKED.into_iter().find(|known| known.0 == path) else {
        return plain(StatusCode::NOT_FOUND, "there is nothing here\n");
    };
    let given = request.uri().query();
    let (query, checked) = match (given, check) {
        (Some(query), Some(check)) => (query, check(query)),
        _ => ("", Ok(())),
    };
    if let Err(wrong) = checked {
        return plain(StatusCode::BAD_REQUEST, &format!("{wrong}\n"));
    }
    let permit = match path {
        LOOKS => match Arc::clone(&site.live).try_acquire_owned() {
            Ok(permit) => Some(permit),
            Err(_) => return later("too many follow each look; try again later\n", 5),
        },
        _ => None,
    };
    let request = format!("{path}?{query}");
    site.collector.answer(request, kind, permit).await
}
