// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Policies in force: applied, changed, kept and removed, on this machine's kernel.

pub(crate) mod announce;
pub(crate) mod control_groups;
pub(crate) mod damaged;
pub(crate) mod exported;
pub(crate) mod interrupted;
pub(crate) mod json;
pub(crate) mod kernel;
pub(crate) mod late;
pub(crate) mod links;
pub(crate) mod names;
pub(crate) mod powerless;
pub(crate) mod race;
pub(crate) mod refused;
pub(crate) mod renamed;
pub(crate) mod safe;
pub(crate) mod track;
pub(crate) mod victim;
