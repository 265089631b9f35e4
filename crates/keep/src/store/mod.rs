// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What weirgate stores: the history of applied states below `/var/lib`, and the state of the
//! running kernel below `/run`.

pub(crate) mod damage;
pub(crate) mod folder;
pub(crate) mod head;
pub(crate) mod history;
pub(crate) mod memory;
pub(crate) mod sealed;
pub(crate) mod table_text;
pub(crate) mod trust;
