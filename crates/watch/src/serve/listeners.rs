// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The sockets on which the web process accepts connections. The collector makes them, because
//! it may have permission for low ports and folders, and they outlive a web process.

use crate::WatchError;
use crate::channel::LISTENERS;
use crate::serve::config::Listen;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileTypeExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use tokio::net::TcpListener;

/// Listens at all places; returns the sockets, and the IP addresses.
pub(crate) async fn listen(
    listeners: &[Listen],
) -> Result<(Vec<OwnedFd>, Vec<SocketAddr>), WatchError> {
    let (mut sockets, mut bound) = (Vec::new(), Vec::new());
    for one in listeners {
        let name = match one {
            Listen::Address(address) => address.to_string(),
            Listen::Socket(path) => path.display().to_string(),
        };
        let failed = |source| WatchError::Listen {
            place: name.clone(),
            source,
        };
        if sockets.len() == LISTENERS {
            return Err(failed(io::ErrorKind::QuotaExceeded.into()));
        }
        sockets.push(match one {
            Listen::Address(address) => {
                let listener = TcpListener::bind(address).await.map_err(failed)?;
                bound.push(listener.local_addr().map_err(failed)?);
                listener.into_std().map_err(failed)?.into()
            }
            Listen::Socket(path) => unix(path).map_err(failed)?.into(),
        });
    }
    Ok((sockets, bound))
}

/// Makes a Unix socket, replacing one on which no process listens.
fn unix(path: &Path) -> io::Result<UnixListener> {
    if let Ok(old) = std::fs::symlink_metadata(path) {
        if !old.file_type().is_socket() {
            return Err(io::Error::other(
                "it exists and is no socket; name another path, or remove it",
            ));
        }
        if UnixStream::connect(path).is_err() {
            std::fs::remove_file(path)?;
        }
    }
    let listener = UnixListener::bind(path)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}
