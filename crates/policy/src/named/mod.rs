// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a policy gives a name, for its rules to use: groups, services and
//! schedules.

pub(crate) mod group;
pub(crate) mod member;
pub(crate) mod schedule;
pub(crate) mod service;
