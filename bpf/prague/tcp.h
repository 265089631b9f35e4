/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The kernel types and functions of TCP that a congestion control uses.
 * kernel.h has the others. */
#ifndef PRAGUE_TCP_H
#define PRAGUE_TCP_H

#include "host.h"

/* include/uapi/linux/bpf.h */
enum { BPF_MAP_TYPE_SK_STORAGE = 24 };
enum { BPF_F_NO_PREALLOC = 1 };
enum { BPF_SK_STORAGE_GET_F_CREATE = 1 };

/* include/net/tcp.h: the feedback mode in tcp_sock.ecn_flags. Both bits are set
 * until it is negotiated. */
enum { TCP_ECN_MODE_RFC3168 = 1, TCP_ECN_MODE_ACCECN = 16 };
enum { TCP_CONG_NEEDS_ACCECN = 4 };

/* include/uapi/linux/tcp.h */
enum tcp_ca_state {
	TCP_CA_Open,
	TCP_CA_Disorder,
	TCP_CA_CWR,
	TCP_CA_Recovery,
	TCP_CA_Loss,
};

/* include/net/sock.h */
enum sk_pacing { SK_PACING_NONE, SK_PACING_NEEDED, SK_PACING_FQ };

#pragma clang attribute push(__attribute__((preserve_access_index)), \
			     apply_to = record)

struct sock {
	unsigned long sk_pacing_rate;
	unsigned long sk_max_pacing_rate;
	__u32 sk_pacing_status;
};

struct minmax_sample {
	__u32 t;
	__u32 v;
};

struct minmax {
	struct minmax_sample s[3];
};

struct tcp_sock {
	__u32 snd_cwnd;
	__u32 snd_cwnd_clamp;
	__u32 snd_ssthresh;
	__u32 snd_nxt;
	__u32 snd_una;
	__u32 delivered;
	__u32 delivered_ce;
	__u32 srtt_us; /* eight times the smoothed round trip */
	__u32 mss_cache;
	__u64 tcp_mstamp; /* current time in microseconds */
	struct minmax rtt_min;
	__u8 ecn_flags;
};

struct rate_sample {
	long rtt_us;
	__u32 acked_sacked;
	__u32 prior_in_flight;
};

#pragma clang attribute pop

/* The kernel checks the types of these members. */
struct tcp_congestion_ops {
	void (*init)(struct sock *sk);
	void (*release)(struct sock *sk);
	__u32 (*ssthresh)(struct sock *sk);
	void (*cong_control)(struct sock *sk, __u32 ack, int flag,
			     const struct rate_sample *rs);
	void (*set_state)(struct sock *sk, __u8 new_state);
	__u32 (*undo_cwnd)(struct sock *sk);
	__u32 (*min_tso_segs)(struct sock *sk);
	char name[16];
	__u32 flags;
};

/* net/ipv4/tcp_cong.c */
extern __u32 tcp_reno_ssthresh(struct sock *sk) __ksym;
extern void tcp_reno_cong_avoid(struct sock *sk, __u32 ack, __u32 acked) __ksym;
extern __u32 tcp_reno_undo_cwnd(struct sock *sk) __ksym;

#endif
