// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Messages between weirgate's processes: a length of four bytes, then JSON.

use crate::error::KeepError;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{Read, Write};
use tokio::io::{AsyncRead, AsyncReadExt as _};

/// The largest accepted length, more than any state needs. A larger one is not a message of
/// weirgate.
const LARGEST: u32 = 1 << 30;

fn failed(what: impl std::fmt::Display) -> KeepError {
    KeepError::Guard(what.to_string())
}

/// Returns a message as bytes.
pub(crate) fn bytes(word: &impl Serialize) -> Result<Vec<u8>, KeepError> {
    let body = serde_json::to_vec(word).map_err(failed)?;
    let mut bytes = (body.len() as u32).to_ne_bytes().to_vec();
    bytes.extend(body);
    Ok(bytes)
}

/// Sends a message.
pub(crate) fn send(stream: &mut impl Write, word: &impl Serialize) -> Result<(), KeepError> {
    stream.write_all(&bytes(word)?).map_err(failed)
}

/// Sends bytes as one message; it may be empty.
pub(crate) fn send_raw(stream: &mut impl Write, bytes: &[u8]) -> Result<(), KeepError> {
    let length = (bytes.len() as u32).to_ne_bytes();
    let sent = stream.write_all(&length);
    sent.and_then(|()| stream.write_all(bytes)).map_err(failed)
}

/// Receives a message.
pub(crate) fn receive<T: DeserializeOwned>(stream: &mut impl Read) -> Result<T, KeepError> {
    let mut length = [0; 4];
    stream.read_exact(&mut length).map_err(failed)?;
    let mut body = vec![0; size(length)?];
    stream.read_exact(&mut body).map_err(failed)?;
    serde_json::from_slice(&body).map_err(failed)
}

/// Receives a message in the event loop; `None` if the peer is gone.
pub(crate) async fn next<T: DeserializeOwned>(
    stream: &mut (impl AsyncRead + Unpin),
) -> Result<Option<T>, KeepError> {
    let body = next_raw(stream).await?;
    body.map(|body| serde_json::from_slice(&body).map_err(failed))
        .transpose()
}

/// Receives bytes in the event loop; `None` if the peer is gone.
pub(crate) async fn next_raw(
    stream: &mut (impl AsyncRead + Unpin),
) -> Result<Option<Vec<u8>>, KeepError> {
    let mut length = [0; 4];
    if stream.read_exact(&mut length).await.is_err() {
        return Ok(None);
    }
    let mut body = vec![0; size(length)?];
    let whole = stream.read_exact(&mut body).await.is_ok();
    Ok(whole.then_some(body))
}

fn size(length: [u8; 4]) -> Result<usize, KeepError> {
    match u32::from_ne_bytes(length) {
        length if length <= LARGEST => Ok(length as usize),
        length => Err(failed(format!("a word of {length} bytes"))),
    }
}
