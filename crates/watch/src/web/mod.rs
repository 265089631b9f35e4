// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The web process: accepts connections, authenticates users, and answers with the collector's
//! data. It handles untrusted input without privileges.

pub(crate) mod access;
mod answer;
mod auth;
mod collector;
mod confine;
mod connection_limit;
mod guesses;
mod http;
mod local_users;
mod pages;
pub(crate) mod query;
mod slow_client_timeout;

use crate::channel::{Channel, LONGEST_SETTINGS, SETTINGS, read, write};
use crate::settings::Settings;
use crate::tls;
use access::Access;
use auth::Auth;
use collector::Collector;
use http::Site;
use local_users::Sockets;
use rustls::ServerConfig;
use std::convert::Infallible;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use tokio::runtime::Builder;

/// Answers requests until the other end of `channel` is closed. It first drops all privileges,
/// permanently and for all its threads.
pub fn web(channel: OwnedFd) -> io::Result<()> {
    let sockets = Sockets::open()?;
    let runtime = Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(4)
        .build()?;
    confine::confine()
        .map_err(|error| io::Error::new(error.kind(), format!("it cannot be confined: {error}")))?;
    match runtime.block_on(serve(channel, sockets)) {
        // The collector has exited, so this process does too.
        Err(error) if ENDED.contains(&error.kind()) => Ok(()),
        Ok(never) => match never {},
        Err(error) => Err(error),
    }
}

/// The errors that mean that the other end of a channel or stream is closed.
const ENDED: [io::ErrorKind; 3] = [
    io::ErrorKind::BrokenPipe,
    io::ErrorKind::ConnectionReset,
    io::ErrorKind::UnexpectedEof,
];

async fn serve(channel: OwnedFd, sockets: Sockets) -> io::Result<Infallible> {
    let channel = Channel::open(channel)?;
    let listeners = channel.take().await?;
    let collector = Arc::new(Collector::new(channel));
    let mut stream = collector.ask(SETTINGS.to_owned()).await?;
    let settings = read(&mut stream, LONGEST_SETTINGS).await?;
    let settings = Settings::read(&settings).ok_or(io::ErrorKind::InvalidData)?;
    let (tls, access) = credentials(&settings)?;
    let auth = Auth::new(tls, access).map_err(io::Error::other)?;
    let site = Arc::new(Site::new(&settings, auth, sockets, collector));
    let _servers = http::listen(listeners, &site)?;
    loop {
        write(&mut stream, &[]).await?;
        let settings = read(&mut stream, LONGEST_SETTINGS).await?;
        let settings = Settings::read(&settings).ok_or(io::ErrorKind::InvalidData)?;
        let (tls, access) = credentials(&settings)?;
        site.auth.set(tls, access);
    }
}

/// Parses the certificate and the access list, which the collector has validated.
fn credentials(settings: &Settings) -> io::Result<(Option<Arc<ServerConfig>>, Option<Access>)> {
    let tls = settings.tls.as_ref();
    let tls = tls.map(|(chain, key)| tls::server(chain, key)).transpose();
    let access = settings.access.as_deref().map(Access::parse).transpose();
    let access = access.map_err(|problems| io::Error::other(problems.join("\n")))?;
    Ok((tls.map_err(io::Error::other)?, access))
}
