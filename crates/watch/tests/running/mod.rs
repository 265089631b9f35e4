// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A service that tests run in a thread.
#![allow(dead_code, reason = "each test takes what it needs")]

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::oneshot;
use weirgate_watch::{Config, EndWeb, Legend, Listen, Sending, Sources, WatchError, serve, web};

/// Returns the configuration of a service for this machine's own devices, with five samples a
/// second.
pub fn config(folder: &Path, listen: Listen) -> Config {
    Config {
        listen: vec![listen],
        behind_proxy: false,
        tls: None,
        access: None,
        users: Vec::new(),
        begin_web: in_a_thread,
        sending: Sending::default(),
        history: folder.join("deep/history"),
        size: 4_000_000,
        every: Duration::from_millis(200),
        probes: Vec::new(),
        sources: Sources::default(),
    }
}

/// Runs the web process as a thread, which drops only its own privileges.
fn in_a_thread(channel: OwnedFd) -> io::Result<EndWeb> {
    let thread = std::thread::Builder::new().spawn(move || web(channel))?;
    Ok(Box::new(move || format!("{:?}", thread.join().unwrap())))
}

/// A service in a thread, which ends when this is dropped.
pub struct Running {
    address: Option<SocketAddr>,
    notes: mpsc::Receiver<String>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<Result<(), WatchError>>>,
}

impl Running {
    /// Starts a service, and returns when it listens.
    pub fn start(config: Config) -> Self {
        let (stop, stopped) = oneshot::channel();
        let (ready, address) = mpsc::channel();
        let (tell, notes) = mpsc::channel();
        let thread = std::thread::spawn(move || serve_until(config, stopped, &ready, &tell));
        Self {
            address: address.recv().unwrap(),
            notes,
            stop: Some(stop),
            thread: Some(thread),
        }
    }

    /// Returns its TCP address.
    pub fn address(&self) -> SocketAddr {
        self.address.unwrap()
    }

    /// Waits until the service reports a text with this part to the administrator.
    pub fn hears(&self, part: &str) {
        loop {
            let text = self.notes.recv_timeout(Duration::from_mins(1));
            if text
                .unwrap_or_else(|_| panic!("nothing of `{part}`"))
                .contains(part)
            {
                return;
            }
        }
    }

    /// Ends it, and returns all its reports to the administrator.
    pub fn end(mut self) -> Vec<String> {
        self.stop();
        self.notes.try_iter().collect()
    }

    fn stop(&mut self) {
        if let (Some(stop), Some(thread)) = (self.stop.take(), self.thread.take()) {
            let _ = stop.send(());
            thread.join().unwrap().unwrap();
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Returns why a service does not start.
pub fn refused(config: Config) -> String {
    let (_never, stopped) = oneshot::channel();
    let (ready, _address) = mpsc::channel();
    let (tell, _notes) = mpsc::channel();
    let ended = serve_until(config, stopped, &ready, &tell);
    ended.unwrap_err().to_string()
}

fn serve_until(
    config: Config,
    stop: oneshot::Receiver<()>,
    ready: &mpsc::Sender<Option<SocketAddr>>,
    notes: &mpsc::Sender<String>,
) -> Result<(), WatchError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let stop = async {
            let _ = stop.await;
        };
        let ready = |addresses: &[SocketAddr]| ready.send(addresses.first().copied()).unwrap();
        // Ignore errors: the test may have ended.
        let report = |text: &str| drop(notes.send(text.to_owned()));
        serve(
            config,
            Legend::default(),
            || {
                report("the legend is read again");
                None
            },
            || (Vec::new(), Vec::new()),
            stop,
            ready,
            report,
        )
        .await
    })
}
