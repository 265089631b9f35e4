// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Mutators of inputs that are texts.

mod dictionary;
pub(crate) mod lines;
pub(crate) mod words;
