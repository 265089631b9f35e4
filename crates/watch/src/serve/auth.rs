// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Authenticates requests: TLS where a certificate is configured, credentials
//! where an access list is. Both are read again when their files change.

use crate::WatchError;
use crate::lock::lock;
use crate::serve::access::{Access, Shown, Tries, own_key};
use crate::serve::file_watch::Changed;
use crate::tls::{self, Tls};
use ring::hmac;
use rustls::ServerConfig;
use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;
use tokio::sync::Semaphore;

/// Right passwords that are remembered, so that a slow hash is computed once.
const REMEMBERED: usize = 64;

/// Whether a request is let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Admission {
    In,
    /// It showed nothing, or something wrong.
    Unknown,
    /// Too many wrong passwords came from its network; in so many seconds.
    Later(u64),
}

/// The certificate and the access list.
pub(crate) struct Auth {
    tls: Option<(Tls, Mutex<Arc<ServerConfig>>)>,
    access: Option<(PathBuf, Mutex<Arc<Access>>)>,
    key: hmac::Key,
    known: Mutex<VecDeque<hmac::Tag>>,
    tries: Mutex<Tries>,
    slow: Arc<Semaphore>,
    refused: AtomicU64,
}

impl Auth {
    pub(crate) fn open(tls: Option<&Tls>, access: Option<&Path>) -> Result<Self, WatchError> {
        let tls = tls.map(|files| Ok::<_, WatchError>((files.clone(), tls::server(files)?)));
        let list = access.map(|path| Ok::<_, WatchError>((path, Access::open(path)?)));
        let key = own_key().map_err(|why| WatchError::Access {
            path: access.map_or_else(PathBuf::new, Path::to_owned),
            why: format!(": {why}"),
        })?;
        Ok(Self {
            tls: tls
                .transpose()?
                .map(|(one, config)| (one, Mutex::new(config))),
            access: list
                .transpose()?
                .map(|(path, list)| (path.to_owned(), Mutex::new(Arc::new(list)))),
            key,
            known: Mutex::default(),
            tries: Mutex::default(),
            slow: Arc::new(Semaphore::new(1)),
            refused: AtomicU64::new(0),
        })
    }

    /// Whether requests must show who they are.
    pub(crate) fn asks(&self) -> bool {
        self.access.is_some()
    }

    pub(crate) fn tls(&self) -> Option<Arc<ServerConfig>> {
        let (_, config) = self.tls.as_ref()?;
        Some(Arc::clone(&lock(config)))
    }

    /// Requests that were refused since the start.
    pub(crate) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Whether a request is let in that shows `header` and comes from `from`. What is
    /// cheap to check is checked first, so that wrong passwords from the same network
    /// keep neither tokens out nor passwords that were right before.
    pub(crate) async fn admit(
        self: &Arc<Self>,
        header: Option<&[u8]>,
        from: Option<IpAddr>,
    ) -> Admission {
        let Some((_, list)) = &self.access else {
            return Admission::In;
        };
        let Some(header) = header else {
            // What browsers ask first; that is no guess.
            return Admission::Unknown;
        };
        let list = Arc::clone(&lock(list));
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

    /// Looks a password up, one at a time, so that guesses take one core at most. After
    /// ten wrong ones a network must wait.
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
        // Goes on to its end where the client leaves meanwhile, so it has the turn.
        let work = tokio::task::spawn_blocking(move || {
            // A browser asks for several files at once, with one password.
            let right = auth.remembers(&header) || shown.is_password(&list);
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

    /// Remembers a right password, unless the list has changed meanwhile. The list is
    /// changed first, and what is remembered is forgotten then.
    fn remember(&self, header: &[u8], list: &Arc<Access>) {
        if self.remembers(header) {
            return;
        }
        let mut known = lock(&self.known);
        let current = self
            .access
            .as_ref()
            .map(|(_, list)| Arc::clone(&lock(list)));
        if current.is_some_and(|current| Arc::ptr_eq(&current, list)) {
            known.push_back(hmac::sign(&self.key, header));
            if known.len() > REMEMBERED {
                known.pop_front();
            }
        }
    }

    /// Follows the files until it is dropped; `told` hears what became of them.
    pub(crate) async fn follow(&self, told: impl Fn(&str)) {
        let tls = self.tls.iter();
        let files = tls.flat_map(|(files, _)| [files.certificate.clone(), files.key.clone()]);
        let files: Vec<PathBuf> = files
            .chain(self.access.iter().map(|(path, _)| path.clone()))
            .collect();
        if files.is_empty() {
            return std::future::pending().await;
        }
        let content = |files: &[PathBuf]| -> Vec<Option<Vec<u8>>> {
            files.iter().map(|file| std::fs::read(file).ok()).collect()
        };
        let changed = match Changed::watch(files.clone()) {
            Ok(changed) => changed,
            Err(error) => {
                told(&format!(
                    "certificates and access are not followed: {error}"
                ));
                return std::future::pending().await;
            }
        };
        let mut before = content(&files);
        loop {
            if let Err(error) = changed.next().await {
                told(&format!(
                    "certificates and access are not followed any more: {error}"
                ));
                return std::future::pending().await;
            }
            let now = content(&files);
            if now != before {
                before = now;
                self.read_again(&told);
            }
        }
    }

    /// Reads the files; what cannot be read leaves the old one in force.
    fn read_again(&self, told: impl Fn(&str)) {
        if let Some((files, current)) = &self.tls {
            match tls::server(files) {
                Ok(config) => {
                    *lock(current) = config;
                    told("the certificate was read again");
                }
                Err(error) => told(&format!("{error}; the old certificate is used on")),
            }
        }
        if let Some((path, current)) = &self.access {
            match Access::open(path) {
                Ok(list) if list == **lock(current) => {}
                Ok(list) => {
                    *lock(current) = Arc::new(list);
                    lock(&self.known).clear();
                    told("who may look was read again");
                }
                Err(error) => told(&format!("{error}; the old list holds on")),
            }
        }
    }
}
