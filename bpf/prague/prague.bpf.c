// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * TCP Prague: a congestion control for the low latency of L4S (RFC 9330), by
 * the requirements of RFC 9331, section 4.
 *
 * The rules are those of draft-briscoe-iccrg-prague-congestion-control and RFC
 * 8257:
 * - alpha is the average share of marked segments, over rounds.
 * - Marks reduce the window by alpha / 2, once per round.
 * - Each round of unmarked segments adds one segment to it.
 * - A round lasts one round trip, and at least VIRTUAL_US. So connections with
 *   shorter round trips share a queue equally.
 * - A loss halves the window, as in Reno.
 * - Packets are paced at one window per round trip. The window may be a
 *   fraction of a segment. Pacing can follow that, the kernel's window cannot.
 *
 * The kernel negotiates accurate feedback (RFC 9768) for it, but sends ECT(0).
 * The egress program turns that into ECT(1), for these connections only. The
 * response is Reno's if no device has the program, if the peer gives no
 * accurate feedback, or if marks come from a classic queue. A scalable response
 * to classic marks would take capacity from others.
 */
#include "tcp.h"
#include "tc_layout.h"
#include "prague_layout.h"

/* The shortest round (draft, section on reduced dependence on round trips). */
#define VIRTUAL_US 25000ULL
/* The average moves by a sixteenth a round (RFC 8257, section 3.3). */
#define GAIN_SHIFT 4
/* The smallest window: one segment in four round trips. */
#define LEAST (PRAGUE_ONE / 4)
/* The smallest window of a classic response in segments, as in Reno. */
#define LEAST_CLASSIC 2
/*
 * An L4S queue delays packets by a millisecond or two, or by the time of a few
 * packets. If every packet of a round waited longer than CLASSIC_US, and longer
 * than CLASSIC_SEGMENTS of its own packets take, the marks of that round come
 * from a classic queue. The queue counts as classic after CLASSIC_ROUNDS more
 * of these rounds than of others.
 */
#define CLASSIC_US 4000
#define CLASSIC_SEGMENTS 3
#define CLASSIC_ROUNDS 16

/* include/uapi/linux/bpf.h, if_ether.h, include/net/inet_ecn.h */
enum { TCX_NEXT = -1 };
#define ETH_P_IP 0x0800
#define ETH_P_IPV6 0x86dd
enum { ECT_1 = 1, ECT_0 = 2, ECN_MASK = 3 };
/* Offset of the checksum in an IPv4 header (RFC 791). */
#define IPV4_SUM 10

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct prague_state);
} prague_states SEC(".maps");

extern void *bpf_cast_to_kern_ctx(void *) __ksym;

static __always_inline struct prague_state *state_of(struct sock *sk)
{
	return bpf_sk_storage_get(&prague_states, sk, NULL, 0);
}

static __always_inline u64 min64(u64 a, u64 b)
{
	return a < b ? a : b;
}

static __always_inline u64 max64(u64 a, u64 b)
{
	return a > b ? a : b;
}

/* Whether a sequence number has been reached. */
static __always_inline int reached(u32 una, u32 seq)
{
	return (s32)(una - seq) >= 0;
}

/* Whether the peer reports how many packets were marked. */
static __always_inline int is_accurate(const struct tcp_sock *tp)
{
	u32 mode = tp->ecn_flags & (TCP_ECN_MODE_RFC3168 | TCP_ECN_MODE_ACCECN);

	return mode == TCP_ECN_MODE_ACCECN;
}

/* Whether marks come from an L4S queue: packets are identified as L4S. */
static __always_inline int is_scalable(const struct prague_state *state)
{
	return state->identified && !state->classic;
}

/* Whether marks have arrived since the last prague_control(). */
static __always_inline int has_new_marks(const struct tcp_sock *tp,
					 const struct prague_state *state)
{
	return tp->delivered_ce != state->delivered_ce;
}

/* Whether a round trip and a round have passed since a sequence number was
 * sent. */
static __always_inline int has_passed(const struct tcp_sock *tp, u32 seq,
				      u64 since_us)
{
	return reached(tp->snd_una, seq) &&
	       tp->tcp_mstamp - since_us >= VIRTUAL_US;
}

static __always_inline u64 least(const struct prague_state *state)
{
	return is_scalable(state) ? LEAST : LEAST_CLASSIC * PRAGUE_ONE;
}

/* Returns the window after a loss. Marks and losses of one round trip are one
 * congestion event, so together they reduce it to half. */
static __always_inline u64 halved(const struct prague_state *state)
{
	u64 from = state->responds ? state->before : state->window;

	return min64(state->window, max64(from / 2, least(state)));
}

/* Converts a window to the kernel's unit, whole segments. */
static __always_inline u32 threshold(u64 window)
{
	return max64(window >> PRAGUE_SHIFT, LEAST_CLASSIC);
}

/* Sets the kernel's window and pacing rate. The rate is two windows per round
 * trip during slow start. */
static __always_inline void give(struct sock *sk, struct tcp_sock *tp,
				 struct prague_state *state)
{
	u64 fewest = state->kernel_state == TCP_CA_Loss ? 1 : LEAST_CLASSIC;
	u64 segments = (state->window + PRAGUE_ONE - 1) >> PRAGUE_SHIFT;
	u64 round_trip_us = tp->srtt_us >> 3;
	u64 rate;

	segments = min64(max64(segments, fewest), tp->snd_cwnd_clamp);
	tp->snd_cwnd = segments;
	state->given = segments;
	if (!round_trip_us)
		return;
	/* At most 2^40, so that the next product does not overflow. */
	rate = min64(state->window * tp->mss_cache >> 10, 1ULL << 40);
	rate = (rate * 1000000 / round_trip_us) >> (PRAGUE_SHIFT - 10);
	if (segments < tp->snd_ssthresh)
		rate *= 2;
	sk->sk_pacing_rate = min64(max64(rate, 1), sk->sk_max_pacing_rate);
}

static __always_inline void halve(struct sock *sk, struct tcp_sock *tp,
				  struct prague_state *state)
{
	state->undo = state->window;
	state->window = halved(state);
	state->halvings++;
	tp->snd_ssthresh = threshold(state->window);
	give(sk, tp, state);
}

static __always_inline void begin_round(const struct tcp_sock *tp,
					struct prague_state *state)
{
	state->round_us = tp->tcp_mstamp;
	state->round_seq = tp->snd_nxt;
	state->round_delivered = 0;
	state->round_marked = 0;
	state->round_rtt_us = ~0U;
	state->round_identified = state->identified;
}

SEC("struct_ops")
void BPF_PROG(prague_init, struct sock *sk)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct prague_state *state;

	sk->sk_pacing_status = SK_PACING_NEEDED;
	state = bpf_sk_storage_get(&prague_states, sk, NULL,
				   BPF_SK_STORAGE_GET_F_CREATE);
	if (!state)
		return;
	__builtin_memset(state, 0, sizeof(*state));
	state->window = (u64)tp->snd_cwnd << PRAGUE_SHIFT;
	state->before = state->window;
	/* The first mark ends slow start, and halves (RFC 8257, section 3.3). */
	state->alpha = PRAGUE_ONE;
	state->accurate = is_accurate(tp);
	state->delivered = tp->delivered;
	state->delivered_ce = tp->delivered_ce;
	begin_round(tp, state);
	give(sk, tp, state);
}

SEC("struct_ops")
void BPF_PROG(prague_release, struct sock *sk)
{
	bpf_sk_storage_delete(&prague_states, sk);
}

/*
 * The kernel also asks for a threshold after marks. prague_control() handles
 * their reduction.
 */
SEC("struct_ops")
__u32 BPF_PROG(prague_ssthresh, struct sock *sk)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct prague_state *state = state_of(sk);

	if (!state)
		return tcp_reno_ssthresh(sk);
	if (is_scalable(state) && has_new_marks(tp, state))
		return tp->snd_ssthresh;
	return threshold(halved(state));
}

SEC("struct_ops")
void BPF_PROG(prague_set_state, struct sock *sk, __u8 new_state)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct prague_state *state = state_of(sk);
	u32 old;

	if (!state) {
		if (new_state == TCP_CA_CWR || new_state == TCP_CA_Recovery)
			tp->snd_cwnd = tp->snd_ssthresh;
		return;
	}
	old = state->kernel_state;
	state->kernel_state = new_state;
	if (new_state == TCP_CA_Loss) {
		u32 left = tp->snd_cwnd;

		/* After a timeout the kernel decides what may be in flight. */
		if (old < TCP_CA_Recovery)
			halve(sk, tp, state);
		state->window = (u64)left << PRAGUE_SHIFT;
		give(sk, tp, state);
	} else if (new_state == TCP_CA_Recovery && old < TCP_CA_Recovery) {
		halve(sk, tp, state);
	} else if (new_state == TCP_CA_CWR && old < TCP_CA_CWR &&
		   !(is_scalable(state) && has_new_marks(tp, state))) {
		/* Classic marks, or a full queue of this machine. */
		halve(sk, tp, state);
	}
}

SEC("struct_ops")
__u32 BPF_PROG(prague_undo, struct sock *sk)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct prague_state *state = state_of(sk);

	if (!state)
		return tcp_reno_undo_cwnd(sk);
	return max64(tp->snd_cwnd, state->undo >> PRAGUE_SHIFT);
}

/* Looks for signs of a classic queue: long waits that marks do not end. */
static __always_inline void suspect(const struct tcp_sock *tp,
				    struct prague_state *state)
{
	u64 window = max64(state->window >> PRAGUE_SHIFT, 1);
	u64 segments_us = CLASSIC_SEGMENTS * (tp->srtt_us >> 3) / window;
	u32 least_us = tp->rtt_min.s[0].v;

	if (state->round_rtt_us == ~0U)
		return;
	if (state->round_rtt_us <= least_us + max64(CLASSIC_US, segments_us)) {
		if (state->suspicion)
			state->suspicion--;
		return;
	}
	if (++state->suspicion >= CLASSIC_ROUNDS)
		state->classic = 1;
}

static __always_inline void end_round(const struct tcp_sock *tp,
				      struct prague_state *state)
{
	u64 share = 0;

	if (state->round_delivered)
		share = min64(((u64)state->round_marked << PRAGUE_SHIFT) /
				      state->round_delivered,
			      PRAGUE_ONE);
	/* Before the first mark there is nothing to average. */
	if (state->seen_marked)
		state->alpha = state->alpha - (state->alpha >> GAIN_SHIFT) +
			       (share >> GAIN_SHIFT);
	if (state->round_marked)
		suspect(tp, state);
	/* Packets now leave by a device without the egress program. */
	if (state->round_delivered &&
	    state->identified == state->round_identified)
		state->identified = 0;
	state->rounds++;
	begin_round(tp, state);
}

static __always_inline void respond(struct tcp_sock *tp,
				    struct prague_state *state)
{
	u64 taken = (state->window * state->alpha >> PRAGUE_SHIFT) / 2;

	state->before = state->window;
	state->window =
		max64(state->window - taken, min64(state->window, LEAST));
	state->responds = 1;
	state->reduced_us = tp->tcp_mstamp;
	state->reduced_seq = tp->snd_nxt;
	state->reductions++;
	tp->snd_ssthresh = threshold(state->window);
}

/*
 * Adds one segment per round. Below VIRTUAL_US a round has several round trips,
 * and the window is smaller than that of the same rate at VIRTUAL_US by the
 * same factor. So the increase per round trip is the square of that factor.
 */
static __always_inline void increase(struct tcp_sock *tp,
				     struct prague_state *state, u64 acked,
				     int scalable)
{
	u64 round_trip_us = tp->srtt_us >> 3;
	u64 each = PRAGUE_ONE;

	if (tp->snd_cwnd < tp->snd_ssthresh) {
		u64 to = (u64)tp->snd_ssthresh << PRAGUE_SHIFT;

		state->window = min64(state->window + (acked << PRAGUE_SHIFT),
				      max64(state->window, to));
		return;
	}
	if (scalable && round_trip_us < VIRTUAL_US)
		each = (round_trip_us * round_trip_us << PRAGUE_SHIFT) /
		       (VIRTUAL_US * VIRTUAL_US);
	state->window +=
		(acked * each << PRAGUE_SHIFT) / max64(state->window, LEAST);
}

SEC("struct_ops")
void BPF_PROG(prague_control, struct sock *sk, __u32 ack, int flag,
	      const struct rate_sample *rs)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct prague_state *state = state_of(sk);
	u32 acked = rs->acked_sacked;
	u64 in_flight = (u64)rs->prior_in_flight << PRAGUE_SHIFT;
	long rtt_us = rs->rtt_us;
	u32 marked, delivered;
	int scalable;

	if (!state) {
		if (acked)
			tcp_reno_cong_avoid(sk, ack, acked);
		return;
	}
	/* The kernel has changed the window after an idle time, a timeout or an
	 * undone loss. */
	if (tp->snd_cwnd != state->given)
		state->window = (u64)tp->snd_cwnd << PRAGUE_SHIFT;
	marked = tp->delivered_ce - state->delivered_ce;
	delivered = tp->delivered - state->delivered;
	state->delivered_ce = tp->delivered_ce;
	state->delivered = tp->delivered;
	state->seen_marked += marked;
	state->round_marked += marked;
	state->round_delivered += delivered;
	if (rtt_us > 0 && rtt_us < state->round_rtt_us)
		state->round_rtt_us = rtt_us;
	scalable = is_scalable(state);
	if (state->responds &&
	    has_passed(tp, state->reduced_seq, state->reduced_us))
		state->responds = 0;
	if (scalable && marked && !state->responds &&
	    state->kernel_state < TCP_CA_Recovery)
		respond(tp, state);
	if (has_passed(tp, state->round_seq, state->round_us))
		end_round(tp, state);
	/* A window less than half used is not validated (RFC 7661, section
	 * 4.3). */
	if (acked > marked && 2 * in_flight >= state->window &&
	    state->kernel_state != TCP_CA_Recovery)
		increase(tp, state, acked - marked, scalable);
	give(sk, tp, state);
}

/* Do not let a segment wait in the kernel for a second one. */
SEC("struct_ops")
__u32 BPF_PROG(prague_min_tso_segs, struct sock *sk)
{
	return 1;
}

/* Turns ECT(0) into ECT(1) in the IP header at this offset. Returns whether it
 * did. */
static __always_inline int identify(struct __sk_buff *ctx, u32 at)
{
	union {
		u8 bytes[2];
		u16 word;
	} old, new;

	if (bpf_skb_load_bytes(ctx, at, &old, sizeof(old)))
		return 0;
	new = old;
	if (ctx->protocol == __builtin_bswap16(ETH_P_IP)) {
		if ((old.bytes[1] & ECN_MASK) != ECT_0)
			return 0;
		new.bytes[1] = (old.bytes[1] & ~ECN_MASK) | ECT_1;
		if (bpf_l3_csum_replace(ctx, at + IPV4_SUM, old.word, new.word,
					sizeof(new.word)))
			return 0;
	} else {
		if ((old.bytes[1] >> 4 & ECN_MASK) != ECT_0)
			return 0;
		new.bytes[1] = (old.bytes[1] & ~(ECN_MASK << 4)) | ECT_1 << 4;
	}
	return !bpf_skb_store_bytes(ctx, at, &new, sizeof(new), 0);
}

/* Sets the L4S identifier (RFC 9331, section 4.1) on packets of Prague
 * connections, except those that permanently respond as classic ones. */
SEC("tcx/egress")
int prague_egress(struct __sk_buff *ctx)
{
	struct bpf_sock *sk = (struct bpf_sock *)ctx->sk;
	struct prague_state *state;
	struct sk_buff *skb;
	u64 at;

	if (!sk || (ctx->protocol != __builtin_bswap16(ETH_P_IP) &&
		    ctx->protocol != __builtin_bswap16(ETH_P_IPV6)))
		return TCX_NEXT;
	sk = bpf_sk_fullsock(sk);
	if (!sk)
		return TCX_NEXT;
	state = bpf_sk_storage_get(&prague_states, sk, NULL, 0);
	if (!state || !state->accurate || state->classic)
		return TCX_NEXT;
	skb = bpf_cast_to_kern_ctx(ctx);
	at = (u64)skb->head + skb->network_header - (u64)skb->data;
	/* Keep the compiler from truncating the pointers to 32 bits. */
	asm volatile("" : "+r"(at));
	if (identify(ctx, at))
		__sync_fetch_and_add(&state->identified, 1);
	return TCX_NEXT;
}

char _license[] SEC("license") = "Dual BSD/GPL";

SEC(".struct_ops.link")
struct tcp_congestion_ops prague = {
	.init = (void *)prague_init,
	.release = (void *)prague_release,
	.ssthresh = (void *)prague_ssthresh,
	.cong_control = (void *)prague_control,
	.set_state = (void *)prague_set_state,
	.undo_cwnd = (void *)prague_undo,
	.min_tso_segs = (void *)prague_min_tso_segs,
	.flags = TCP_CONG_NEEDS_ACCECN,
	.name = "prague",
};
