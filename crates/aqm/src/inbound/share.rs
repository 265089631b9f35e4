// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The part of a rate for each of those who share it (`aqm/include/share.h`).

// Defined in `aqm/host/native/window.c`.
unsafe extern "C" {
    fn aqm_share_rate(sum: *const ShareSum, rate: u64, large: i32, more: u64, others: u64) -> u64;
    fn aqm_share_count(
        sum: *mut ShareSum,
        member: *mut ShareMember,
        part: u64,
        large: i32,
        whole: i32,
        now_ns: u64,
    );
    fn aqm_share_ended(sum: *mut ShareSum, member: *mut ShareMember);
}

/// A whole share.
pub const WHOLE_SHARE: u64 = 65_536;

/// What those count for who share a rate (`struct share_sum`).
#[repr(C)]
#[derive(Debug, Clone, Default)]
pub struct ShareSum {
    epoch: u64,
    used: [[i64; 2]; 3],
}

/// One of them (`struct share_member`).
#[repr(C)]
#[derive(Debug, Clone, Default)]
pub struct ShareMember {
    epoch: u64,
    part: u64,
    counted: u64,
    large: u64,
}

impl ShareSum {
    /// What each that has sent much may have of a rate in bytes a second, or any
    /// other, with `more` shares besides those that there are, and beside `others` in
    /// bytes a second that nobody holds; 0 for no limit.
    pub fn rate(&self, rate: u64, large: bool, more: u64, others: u64) -> u64 {
        // SAFETY: as C has it.
        unsafe { aqm_share_rate(self, rate, large.into(), more, others) }
    }

    /// What a member uses of its share at this time: so much more, or the `whole` where
    /// it waits for nothing else.
    pub fn count(
        &mut self,
        member: &mut ShareMember,
        part: u64,
        (large, whole): (bool, bool),
        now_ns: u64,
    ) {
        // SAFETY: both as C has them.
        unsafe { aqm_share_count(self, member, part, large.into(), whole.into(), now_ns) };
    }

    /// A member has ended.
    pub fn ended(&mut self, member: &mut ShareMember) {
        // SAFETY: both as C has them.
        unsafe { aqm_share_ended(self, member) };
    }
}
