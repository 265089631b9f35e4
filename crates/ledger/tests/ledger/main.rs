// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests of the ledger: from an experiment file and figures to stored results, differences and
//! pages; and shards of runs.

mod differences;
mod forms;
mod sample;
mod shards;
