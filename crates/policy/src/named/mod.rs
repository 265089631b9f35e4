// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Named parts of a policy that rules use: groups, services and schedules.

pub(crate) mod group;
pub(crate) mod member;
pub(crate) mod schedule;
pub(crate) mod service;
