// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The files of a policy: which there are, and what each gives to the whole.

pub(crate) mod include;
