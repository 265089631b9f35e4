// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The Unix socket at which a service accepts changes of single circuits.

use crate::error::KeepError;
use crate::store::folder::{Folders, Lock};
use std::fs::{self, Permissions};
use std::io::{Error, ErrorKind};
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _, chown};
use std::os::unix::net::UnixStream as Blocking;
use std::path::{Path, PathBuf};
use tokio::net::{UnixListener, UnixStream};

/// A listening socket to which root may connect, and optionally a group. Removed when dropped.
pub struct CircuitsSocket {
    listener: UnixListener,
    path: PathBuf,
    /// Held by the one service of a network namespace.
    _lock: Lock,
}

impl CircuitsSocket {
    /// The default path.
    pub const PATH: &'static str = "/run/weirgate/circuits.sock";

    /// Listens at this path, and replaces a socket at which no process listens. Members of the
    /// group with this number may connect too. Needs a tokio runtime.
    pub async fn open(
        folders: &Folders,
        path: &Path,
        group: Option<u32>,
    ) -> Result<Self, KeepError> {
        let lock = folders.lock_held_soon("circuits").await?;
        if path.parent() == Path::new(Self::PATH).parent() {
            Folders::passable(group.is_some())?;
        }
        let failed = |source| KeepError::file(path)(source);
        let is_socket = fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket());
        if is_socket {
            match Blocking::connect(path) {
                Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
                    fs::remove_file(path).map_err(failed)?;
                }
                Err(error) => return Err(failed(error)),
                Ok(_) => {
                    let message = "another process listens there";
                    return Err(failed(Error::new(ErrorKind::AddrInUse, message)));
                }
            }
        }
        let listener = UnixListener::bind(path).map_err(failed)?;
        chown(path, None, group).map_err(failed)?;
        let mode = if group.is_some() { 0o660 } else { 0o600 };
        fs::set_permissions(path, Permissions::from_mode(mode)).map_err(failed)?;
        Ok(Self {
            listener,
            path: path.to_owned(),
            _lock: lock,
        })
    }

    /// Waits for the next connection. Cancel-safe.
    pub async fn accept(&self) -> Result<UnixStream, KeepError> {
        let accepted = self.listener.accept().await;
        let (stream, _) = accepted.map_err(KeepError::file(&self.path))?;
        Ok(stream)
    }
}

impl Drop for CircuitsSocket {
    fn drop(&mut self) {
        // Remove the socket file: nobody listens there any more.
        let _ = fs::remove_file(&self.path);
    }
}
