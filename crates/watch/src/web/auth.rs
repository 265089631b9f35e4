// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Authenticates requests: by TLS if there is a certificate, and by credentials if there is an
//! access list. The collector sends both again when their files change.

use crate::lock::lock;
use crate::web::access::{Access, Shown, own_key};
use crate::web::guesses::Tries;
use ring::hmac;
use rustls::ServerConfig;
use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;
use tokio::sync::Semaphore;

/// How many correct passwords are remembered, so that their slow hash is computed only once.
const REMEMBERED: usize = 64;

/// The decision on a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Admission {
    In,
    /// It showed no credentials, or wrong ones.
    Unknown,
    /// Its network has tried too many wrong passwords; try again after this many seconds.
    Later(u64),
}

/// The certificate and the access list.
pub(crate) struct Auth {
    tls: Mutex<Option<Arc<ServerConfig>>>,
    access: Mutex<Option<Arc<Access>>>,
    key: hmac::Key,
    known: Mutex<VecDeque<hmac::Tag>>,
    tries: Mutex<Tries>,
    slow: Arc<Semaphore>,
    refused: AtomicU64,
}

impl Auth {
    pub(crate) fn new(
        tls: Option<Arc<ServerConfig>>,
        access: Option<Access>,
    ) -> Result<Self, String> {
        Ok(Self {
            tls: Mutex::new(tls),
            access: Mutex::new(access.map(Arc::new)),
            key: own_key()?,
            known: Mutex::default(),
            tries: Mutex::default(),
            slow: Arc::new(Semaphore::new(1)),
            refused: AtomicU64::new(0),
        })
    }

    /// Replaces the certificate and the access list. Users who are no longer on the list are
    /// refused from their next request on.
    pub(crate) fn set(&self, tls: Option<Arc<ServerConfig>>, access: Option<Access>) {
        *lock(&self.tls) = tls;
        let mut current = lock(&self.access);
        if current.as_deref() != access.as_ref() {
            *current = access.map(Arc::new);
            drop(current);
            lock(&self.known).clear();
        }
    }

    /// Returns whether requests need credentials.
    pub(crate) fn asks(&self) -> bool {
        lock(&self.access).is_some()
    }

    pub(crate) fn tls(&self) -> Option<Arc<ServerConfig>> {
        lock(&self.tls).clone()
    }

    /// Returns the number of requests refused since the start.
    pub(crate) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Decides on a request with the `Authorization` value `header` from the address `from`.
    /// Cheap checks come first, so that wrong passwords from a network do not block its tokens
    /// and remembered passwords.
    pub(crate) async fn admit(
        self: &Arc<Self>,
        header: Option<&[u8]>,
        from: Option<IpAddr>,
    ) -> Admission {
        let Some(list) = lock(&self.access).clone() else {
            return Admission::In;
        };
        let Some(header) = header else {
            // The first request of a browser, which does not count as an attempt.
            return Admission::Unknown;
        };
        let answer = match Shown::read(header) {
            Some(shown) if shown.is_token(&list, &self.key) => Admission::In,
            Some(shown) if shown.may_be_password() => {
                let from = from.unwrap_or(Ipv4Addr::UNSPECIFIED.into());
                self.look_up(header, shown, list, from).await
            }
            _ => Admission::Unknown,
        };
        if answer != Admission::In {
            self.refused.fetch_add(1, Ordering::Relaxed);
        }
        answer
    }

    fn remembers(&self, header: &[u8]) -> bool {
        let known = lock(&self.known);
        let same = |tag: &hmac::Tag| hmac::verify(&self.key, header, tag.as_ref()).is_ok();
        known.iter().fold(false, |found, tag| same(tag) | found)
    }

    /// Checks a password. Only one is checked at a time, so that attempts use at most one
    /// processor. After ten wrong ones a network must wait.
    async fn look_up(
        self: &Arc<Self>,
        header: &[u8],
        shown: Shown,
        list: Arc<Access>,
        from: IpAddr,
    ) -> Admission {
        if self.remembers(header) {
            return Admission::In;
        }
        if let Err(seconds) = lock(&self.tries).take(from, Instant::now()) {
            return Admission::Later(seconds);
        }
        let Ok(turn) = Arc::clone(&self.slow).acquire_owned().await else {
            return Admission::Unknown;
        };
        let (auth, header) = (Arc::clone(self), header.to_vec());
        // The check completes even if the client disconnects, so it keeps the turn.
        let work = tokio::task::spawn_blocking(move || {
            // A browser asks for several files at once, with one password.
            let right = auth.remembers(&header) || shown.is_password(&list, &auth.key);
            if right {
                auth.remember(&header, &list);
            }
            drop(turn);
            right
        });
        if !work.await.unwrap_or(false) {
            return Admission::Unknown;
        }
        lock(&self.tries).give_back(from);
        Admission::In
    }

    /// Remembers a correct password, unless the list has changed since. Changing the list clears
    /// the remembered passwords.
    fn remember(&self, header: &[u8], list: &Arc<Access>) {
        if self.remembers(header) {
            return;
        }
        let mut known = lock(&self.known);
        let current = lock(&self.access).clone();
        if current.is_some_and(|current| Arc::ptr_eq(&current, list)) {
            known.push_back(hmac::sign(&self.key, header));
            if known.len() > REMEMBERED {
                known.pop_front();
            }
        }
    }
}
