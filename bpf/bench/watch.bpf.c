// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Watches the kernel's codel, fq_codel and pie, to compare the kit's with them:
 * arrivals, departures, and the exact time that the discipline took as "now".
 *
 * codel reads the clock inside its decision. So its time is derived from the
 * packet's time of arrival and the delay that codel stores.
 */
#include "kernel.h"
#include "watch_layout.h"

#pragma clang attribute push(__attribute__((preserve_access_index)), \
			     apply_to = record)

struct Qdisc___priv {
	long privdata[1];
};

struct sk_buff___hash {
	__u32 hash;
	char cb[48];
};

struct qdisc_skb_cb___data {
	unsigned int pkt_len;
	unsigned char data[20];
};

/* include/net/codel.h, net/sched/sch_codel.c, sch_fq_codel.c */
struct codel_vars {
	__u32 ldelay;
};

struct codel_sched_data {
	struct codel_vars vars;
};

struct fq_codel_flow {
	struct codel_vars cvars;
};

struct fq_codel_sched_data {
	struct fq_codel_flow *flows;
	__u32 flows_cnt;
};

/* include/net/pie.h */
struct pie_params;

struct pie_vars {
	__u64 qdelay;
	__u64 prob;
};

#pragma clang attribute pop

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 24);
} events SEC(".maps");

/* Events that did not fit in the ring; if any, nothing can be compared. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} lost SEC(".maps");

static __always_inline void *private_of(struct Qdisc *sch)
{
	return (void *)sch +
	       bpf_core_field_offset(struct Qdisc___priv, privdata);
}

static __always_inline void tell(struct seen *seen)
{
	__u32 key = 0;
	__u64 *count;

	if (!bpf_ringbuf_output(&events, seen, sizeof(*seen), 0))
		return;
	count = bpf_map_lookup_elem(&lost, &key);
	if (count)
		(*count)++;
}

/* Reads a packet's control block and hash. Returns its enqueue time. */
static __always_inline __u32 describe(struct seen *seen, struct sk_buff *skb)
{
	struct sk_buff___hash *own = (void *)skb;
	struct qdisc_skb_cb___data *cb =
		(void *)own + bpf_core_field_offset(struct sk_buff___hash, cb);
	__u32 came = 0;

	seen->packet = (__u64)skb;
	seen->hash = BPF_CORE_READ(own, hash);
	seen->len = BPF_CORE_READ(cb, pkt_len);
	/* codel_skb_cb begins with its enqueue_time. */
	bpf_probe_read_kernel(
		&came, sizeof(came),
		(void *)cb + bpf_core_field_offset(struct qdisc_skb_cb___data,
						   data));
	return came;
}

static __always_inline int came(struct sk_buff *skb, int ret)
{
	struct seen seen = { .kind = SEEN_ENQUEUE, .refused = (__u32)ret };

	seen.time = describe(&seen, skb);
	tell(&seen);
	return 0;
}

SEC("fexit/codel_qdisc_enqueue")
int BPF_PROG(codel_came, struct sk_buff *skb, struct Qdisc *sch,
	     struct sk_buff **to_free, int ret)
{
	return came(skb, ret);
}

SEC("fexit/codel_qdisc_dequeue")
int BPF_PROG(codel_left, struct Qdisc *sch, struct sk_buff *skb)
{
	struct codel_sched_data *q = private_of(sch);
	struct seen seen = { .kind = SEEN_DEQUEUE };

	if (skb) {
		seen.time = describe(&seen, skb);
		seen.time = (__u32)(seen.time + BPF_CORE_READ(q, vars.ldelay));
	}
	tell(&seen);
	return 0;
}

SEC("fexit/fq_codel_enqueue")
int BPF_PROG(fq_codel_came, struct sk_buff *skb, struct Qdisc *sch,
	     struct sk_buff **to_free, int ret)
{
	return came(skb, ret);
}

SEC("fexit/fq_codel_dequeue")
int BPF_PROG(fq_codel_left, struct Qdisc *sch, struct sk_buff *skb)
{
	struct fq_codel_sched_data *q = private_of(sch);
	struct seen seen = { .kind = SEEN_DEQUEUE };
	struct fq_codel_flow *flow;
	__u64 index;

	if (skb) {
		seen.time = describe(&seen, skb);
		index = ((__u64)seen.hash * BPF_CORE_READ(q, flows_cnt)) >> 32;
		flow = (void *)BPF_CORE_READ(q, flows) +
		       index * bpf_core_type_size(struct fq_codel_flow);
		seen.time =
			(__u32)(seen.time + BPF_CORE_READ(flow, cvars.ldelay));
	}
	tell(&seen);
	return 0;
}

SEC("fexit/pie_qdisc_enqueue")
int BPF_PROG(pie_came, struct sk_buff *skb, struct Qdisc *sch,
	     struct sk_buff **to_free, int ret)
{
	struct seen seen = { .kind = SEEN_ENQUEUE, .refused = (__u32)ret };

	describe(&seen, skb);
	seen.time = bpf_ktime_get_ns();
	tell(&seen);
	return 0;
}

SEC("fexit/pie_qdisc_dequeue")
int BPF_PROG(pie_left, struct Qdisc *sch, struct sk_buff *skb)
{
	struct seen seen = { .kind = SEEN_DEQUEUE };

	if (skb)
		describe(&seen, skb);
	seen.time = bpf_ktime_get_ns();
	tell(&seen);
	return 0;
}

SEC("fexit/pie_calculate_probability")
int BPF_PROG(pie_updated, struct pie_params *params, struct pie_vars *vars,
	     __u32 backlog)
{
	struct seen seen = { .kind = SEEN_UPDATE };

	seen.time = bpf_ktime_get_ns();
	seen.packet = BPF_CORE_READ(vars, qdelay);
	seen.probability = BPF_CORE_READ(vars, prob);
	seen.len = backlog;
	tell(&seen);
	return 0;
}

char _license[] SEC("license") = "Dual BSD/GPL";
