// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The web process: accepts connections, authenticates users, and answers with the collector's
//! data. Input from strangers is read here, in a process without privileges.

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

/// Answers requests until the collector at the other end of `channel` is gone. Gives up
/// all rights before, for this thread and those that it begins, and never gets them
/// back.
pub fn web(channel: OwnedFd) -> io::Result<()> {
    let sockets = Sockets::open()?;
    let runtime = Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(4)
        .build()?;
    confine::confine()
        .map_err(|error| io::Error::new(error.kind(), format!("it cannot be confined: {error}")))?;
    match runtime.block_on(serve(channel, sockets)) {
        // The collector is gone, which is the end of this.
        Err(error) if ENDED.contains(&error.kind()) => Ok(()),
        Ok(never) => match never {},
        Err(error) => Err(error),
    }
}

/// What is found where the other end of a channel or stream is closed.
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

/// The certificate and the list, which the collector has read before.
fn credentials(settings: &Settings) -> io::Result<(Option<Arc<ServerConfig>>, Option<Access>)> {
    let tls = settings.tls.as_ref();
    let tls = tls.map(|(chain, key)| tls::server(chain, key)).transpose();
    let access = settings.access.as_deref().map(Access::parse).transpose();
    let access = access.map_err(|problems| io::Error::other(problems.join("\n")))?;
    Ok((tls.map_err(io::Error::other)?, access))
}
