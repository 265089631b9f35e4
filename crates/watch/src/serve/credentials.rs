// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Certificate, key and access list. The collector may read files, so it reads them and sends
//! them to the web process. It reads them again when the files change.

use crate::WatchError;
use crate::channel::{STALLED, gone, read, write};
use crate::file::read_text;
use crate::serve::config::Config;
use crate::serve::file_watch::Changed;
use crate::settings::Settings;
use crate::tls::Tls;
use crate::web::access::Access;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::UnixStream;
use tokio::sync::watch;
use tokio::time::timeout;

/// How long to wait until the web process has the new credentials.
const TAKEN: Duration = Duration::from_secs(10);

/// The credentials that the web process receives, and those that it has.
pub(crate) struct Credentials {
    tls: Option<Tls>,
    access: Option<PathBuf>,
    current: watch::Sender<Arc<Settings>>,
    taken: watch::Sender<Option<Arc<Settings>>>,
}

impl Credentials {
    pub(crate) fn open(config: &Config) -> Result<Self, WatchError> {
        let own = rustix::process::getuid().as_raw();
        let users = [0, own].into_iter().chain(config.users.iter().copied());
        let access = config.access.as_deref();
        let settings = Settings {
            behind_proxy: config.behind_proxy,
            users: users.collect(),
            tls: config.tls.as_ref().map(Tls::read).transpose()?,
            access: access.map(Access::read).transpose()?,
        };
        Ok(Self {
            tls: config.tls.clone(),
            access: config.access.clone(),
            current: watch::Sender::new(Arc::new(settings)),
            taken: watch::Sender::new(None),
        })
    }

    /// Returns whether requests need credentials.
    pub(crate) fn asks(&self) -> bool {
        self.access.is_some()
    }

    /// Returns once a web process has received the credentials.
    pub(crate) async fn taken(&self) {
        // This cannot fail, because `self` owns the sender.
        let _ = self.taken.subscribe().wait_for(Option::is_some).await;
    }

    /// Sends the credentials to a web process, initially and whenever they change.
    pub(crate) async fn tell(&self, mut stream: UnixStream) -> io::Result<()> {
        let mut current = self.current.subscribe();
        loop {
            let settings = Arc::clone(&current.borrow_and_update());
            write(&mut stream, settings.text().as_bytes()).await?;
            timeout(STALLED, read(&mut stream, 0)).await??;
            self.taken.send_replace(Some(settings));
            tokio::select! {
                _ = current.changed() => {}
                () = gone(&stream) => return Ok(()),
            }
        }
    }

    /// Follows the files until this is dropped; `report` receives the results.
    pub(crate) async fn follow(&self, report: impl Fn(&str)) {
        let tls = self.tls.iter();
        let files = tls.flat_map(|files| [files.certificate.clone(), files.key.clone()]);
        let files: Vec<PathBuf> = files.chain(self.access.clone()).collect();
        if files.is_empty() {
            return std::future::pending().await;
        }
        let content = |files: &[PathBuf]| -> Vec<Option<String>> {
            files.iter().map(|file| read_text(file).ok()).collect()
        };
        let changed = match Changed::watch(files.clone()) {
            Ok(changed) => changed,
            Err(error) => {
                report(&format!(
                    "certificates and access are not followed: {error}"
                ));
                return std::future::pending().await;
            }
        };
        // In the order of `files`, and as they were read when the service began.
        let mut before: Vec<Option<String>> = {
            let known = self.current.borrow();
            let tls = known.tls.iter().flat_map(|(chain, key)| [chain, key]);
            tls.chain(&known.access).cloned().map(Some).collect()
        };
        loop {
            let now = content(&files);
            if now != before {
                before = now;
                self.read_again(&report).await;
            }
            if let Err(error) = changed.next().await {
                report(&format!(
                    "certificates and access are not followed any more: {error}"
                ));
                return std::future::pending().await;
            }
        }
    }

    /// Reads the files. If one cannot be read, the old contents stay in force.
    async fn read_again(&self, report: impl Fn(&str)) {
        let mut settings = Settings::clone(&self.current.borrow());
        let mut done = Vec::new();
        if let Some(files) = &self.tls {
            match files.read() {
                Ok(read) => {
                    settings.tls = Some(read);
                    done.push("the certificate was read again");
                }
                Err(error) => report(&format!("{error}; the old certificate stays in use")),
            }
        }
        if let Some(path) = &self.access {
            match Access::read(path) {
                Ok(list) if settings.access.as_ref() == Some(&list) => {}
                Ok(list) => {
                    settings.access = Some(list);
                    done.push("who may look was read again");
                }
                Err(error) => report(&format!("{error}; the old list stays in force")),
            }
        }
        let settings = Arc::new(settings);
        self.current.send_replace(Arc::clone(&settings));
        let same = |taken: &Option<Arc<Settings>>| {
            taken
                .as_ref()
                .is_some_and(|one| Arc::ptr_eq(one, &settings))
        };
        let mut taken = self.taken.subscribe();
        // Without a web process, the next one will receive them.
        let _ = timeout(TAKEN, taken.wait_for(same)).await;
        done.into_iter().for_each(report);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::export::push::Sending;
    use crate::sources::Sources;

    /// Programs load for seconds between the first reading and the begin of `follow`.
    #[tokio::test]
    async fn what_changed_before_it_was_followed_is_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("access");
        let of = |name: &str| format!("{name} token {}\n", "00".repeat(32));
        std::fs::write(&path, of("ann") + &of("bob")).expect("is written");
        let config = Config {
            listen: Vec::new(),
            behind_proxy: false,
            tls: None,
            access: Some(path.clone()),
            users: Vec::new(),
            begin_web: |_| Err(io::Error::other("none is needed")),
            sending: Sending::default(),
            history: PathBuf::new(),
            size: 0,
            every: Duration::from_secs(1),
            probes: Vec::new(),
            sources: Sources::default(),
        };
        let credentials = Credentials::open(&config).expect("is read");
        std::fs::write(&path, of("ann")).expect("is written");
        let mut current = credentials.current.subscribe();
        tokio::select! {
            () = credentials.follow(|_: &str| {}) => {}
            changed = timeout(Duration::from_secs(20), current.changed()) => {
                changed.expect("a change").expect("a sender");
            }
        }
        assert_eq!(current.borrow().access, Some(of("ann")));
    }
}
