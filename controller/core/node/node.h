// A node's life as the controller sees it: whether it is heard of, and what holds it.
//
//                        disconnected, or no reports           lease run out, or
//     (hello) ──▶ reachable ───────────────────▶ unreachable ──────────────────▶ lost
//                     ▲                               │         declared lost     │
//                     ╰──────── a report, or hello ───┴───────────────────────────╯
//
// The state that is shown is the first of these that applies; holds are those of hold.h:
//   LOST, UNREACHABLE   as above
//   DRAINED             has a drain, and no trainer is there or should be
//   DRAINING            has a drain
//   CORDONED            has a cordon
//   READY               takes ranks
// So a node whose holds are removed while it is not heard of stays UNREACHABLE.
//
// The trainers of an UNREACHABLE node may well be running, so nothing is moved away. Those of a
// LOST node have ended: its lease ran out on its own clock before (worker.proto, Lease), or a
// person has said so.
#ifndef CONTROLLER_CORE_NODE_NODE_H_
#define CONTROLLER_CORE_NODE_NODE_H_

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/core/ids.h"
#include "common/core/moment.h"
#include "controller/core/node/hold.h"
#include "controller/core/node/node_check.h"
#include "controller/core/requests/refusal.h"

namespace paceline {

// A node without a report for this long becomes UNREACHABLE. Reports come every second.
inline constexpr absl::Duration kUnreachableAfter = absl::Seconds(10);
// How many events of a node's history are kept.
inline constexpr size_t kNodeEventsKept = 100;

// Values of paceline.v1.NodeState, less one.
enum class NodeState { kReady, kUnreachable, kCordoned, kDraining, kDrained, kLost };

// Whether the node's worker is connected and can be sent something.
inline bool IsReachable(NodeState state) {
  return state != NodeState::kUnreachable && state != NodeState::kLost;
}

enum class Contact { kReachable, kUnreachable, kLost };

// What a worker says about its node when it connects. As Hello in proto/worker.proto.
struct NodeFacts {
  NodeName name;
  std::string uid;  // Identifies the worker's state directory.
  int cpus = 0;
  int64_t memory_bytes = 0;
  std::vector<std::string> gpus;
  // Of each GPU; 0: unknown. Empty, or shorter than `gpus`: the worker does not say.
  std::vector<int64_t> gpu_memory_bytes;
  std::string os;
  std::map<std::string, std::string> labels;
  std::string address;
  std::string metrics_address;
  std::string probe_address;
  int slots = 0;
  std::string version;
  int spec_version = 0;  // Of the job spec, that its trainers know.
};

// As NodeHistoryEvent in proto/node.proto.
struct NodeLifeEvent {
  absl::Time time;  // Wall.
  NodeState state = NodeState::kReady;
  std::string who;  // A person, "automation", or "controller".
  std::string what;
};

struct Node {
  NodeFacts facts;
  NodeState state = NodeState::kUnreachable;     // Follows from the rest; set by ShowState.
  std::string reason;                            // Set by ShowState.
  NodeState recorded = NodeState::kUnreachable;  // The state at the last RecordState.

  Contact contact = Contact::kUnreachable;
  std::string contact_reason;
  std::vector<Hold> holds;             // Oldest first.
  bool occupied = false;               // Trainers are there, or should be.
  std::vector<NodeLifeEvent> history;  // Oldest first.
  NodeChecks checks;

  absl::Time registered;   // Wall.
  absl::Time last_report;  // Wall.
  int trainers = 0;        // How many ran at the last report.
  // Steady: when it becomes unreachable, or lost, unless it reports; infinite: never.
  absl::Time unreachable_deadline = absl::InfiniteFuture();
  absl::Time lease_deadline = absl::InfiniteFuture();
};

// How long after its last report a node counts as lost: the lease and a margin, since clocks
// differ. Infinite if there are no leases (zero).
absl::Duration LeasePatience(absl::Duration lease);

// A worker said hello. Returns true if anything but times changed.
bool WelcomeNode(Node& node, NodeFacts facts, absl::Duration lease, Moment now);

// A report arrived. Returns true if the node was not reachable before.
bool HearFromNode(Node& node, absl::Duration lease, Moment now);

// Its worker's session has ended. Returns true if the node was reachable before.
bool DisconnectNode(Node& node);

// The node counts as lost. Returns false if it did so before.
bool LoseContact(Node& node, std::string why);

// Lets contact and holds run out that are due. Returns true if anything changed.
bool TickNode(Node& node, Moment now);

// Why the node cannot be checked now: NODE_UNREACHABLE, CHECK_RUNNING.
std::optional<Refusal> RefuseCheck(const Node& node, absl::Time wall_now);

// When TickNode has something to do next; InfiniteFuture() if never. Steady.
absl::Time NextDeadline(const Node& node);

// Derives the node's state and reason. Returns true if the state changed.
bool ShowState(Node& node);

// Adds an entry with the present state to the history.
void Record(Node& node, std::string who, std::string what, Moment now);

// Returns true if the state differs from that at the last call. The change is recorded as seen by
// the controller, unless the history already ends with that state.
bool RecordState(Node& node, Moment now);

// Prepares a node from the store: it is UNREACHABLE until it says hello, and lost after a lease.
void RestoreNode(Node& node, absl::Duration lease, Moment now);

}  // namespace paceline

#endif  // CONTROLLER_CORE_NODE_NODE_H_
