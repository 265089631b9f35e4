// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Disciplines as programs of this machine: write, test, fuzz, measure and replay them.

pub mod bench;
mod bench_inside;
pub mod capture;
mod frames;
pub mod kit;
mod lint;
pub mod replay;
mod script;
mod shaper;
pub mod verify;
pub mod work;
