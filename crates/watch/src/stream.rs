// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A connection of any kind. HTTP is compiled once for all kinds.

use tokio::io::{AsyncRead, AsyncWrite};

/// What HTTP needs of a connection.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}
