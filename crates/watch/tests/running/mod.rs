// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A service that tests run in a thread.
#![allow(dead_code, reason = "each test takes what it needs")]

use std::net::SocketAddr;
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;
use tokio::sync::oneshot;
use weirgate_watch::{Config, Legend, Listen, Sending, WatchError, serve};

/// A service of this machine's own devices, five looks a second.
pub fn config(folder: &Path, listen: Listen) -> Config {
    Config {
        listen: vec![listen],
        behind_proxy: false,
        tls: None,
        access: None,
        sending: Sending::default(),
        history: folder.join("deep/history"),
        size: 4_000_000,
        every: Duration::from_millis(200),
        probes: Vec::new(),
        sources: Vec::new(),
    }
}

/// Serves until it is stopped.
pub fn run(
    config: Config,
    stop: oneshot::Receiver<()>,
    ready: mpsc::Sender<Option<SocketAddr>>,
) -> Result<(), WatchError> {
    telling(config, stop, ready, None)
}

/// Serves, and tells what an administrator should know.
pub fn telling(
    config: Config,
    stop: oneshot::Receiver<()>,
    ready: mpsc::Sender<Option<SocketAddr>>,
    told: Option<mpsc::Sender<String>>,
) -> Result<(), WatchError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let told = move |text: &str| {
        if let Some(told) = &told {
            let _ = told.send(text.to_owned());
        }
    };
    runtime.block_on(async {
        let stop = async {
            let _ = stop.await;
        };
        let ready = move |places: &[SocketAddr]| ready.send(places.first().copied()).unwrap();
        serve(
            config,
            Legend::default(),
            || None,
            Vec::new,
            stop,
            ready,
            told,
        )
        .await
    })
}
