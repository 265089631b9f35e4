// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Numbers of tags and sessions.

/// A number in digits alone, without a sign.
pub(crate) fn decimal(text: &str) -> Option<u16> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit());
    is_plain.then(|| text.parse().ok()).flatten()
}
