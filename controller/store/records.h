// Encodes and decodes what is stored, by these keys:
//
//   job/<job id>          v1::JobRecord
//   node/<node name>      v1::NodeRecord
//   request/<request id>  v1::RequestRecord
//   automation            v1::AutomationStatus
//   decision/<job id>/<id, 8 digits>
//                         v1::RemedyDecision
//   event/<job id>/<id, 8 digits>
//                         v1::JobHistoryEvent
//   token/<SHA-256 of the secret>
//                         v1::JoinTokenRecord
//   revoked/<principal's URI>
//                         v1::RevocationRecord
//   code/..., code-part/...
//                         controller/api/services/held_code.h
//   meta/...              controller/store/meta_keys.h
#ifndef CONTROLLER_STORE_RECORDS_H_
#define CONTROLLER_STORE_RECORDS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "controller/core/cluster/cluster.h"
#include "controller/core/history/event_history.h"
#include "controller/core/identity/identities.h"
#include "controller/core/requests/request_log.h"
#include "controller/core/stragglers/remedy/remedy.h"
#include "controller/store/state_store.h"

namespace paceline {

std::string JobKey(const JobId& id);
std::string NodeKey(const NodeName& name);
std::string RequestKey(const std::string& request_id);
std::string DecisionKey(const JobId& job, int64_t id);
std::string EventKey(const JobId& job, int64_t id);
inline constexpr char kAutomationKey[] = "automation";

std::string EncodeJob(const Job& job);
std::string EncodeNode(const Node& node, const Cluster& cluster);
std::string EncodeAutomation(const Automation& automation);
std::string EncodeRequest(const RequestLog::Entry& entry);
std::string EncodeDecision(const RemedyDecision& decision);
std::string EncodeEvent(const JobLifeEvent& event);

// Everything that a store holds.
struct StoredState {
  std::string cluster_id;
  int64_t starts = 0;    // Includes this one.
  int64_t restored = 0;  // Number of a restoration since the last start (state_file.h); 0: none.
  int64_t last_restored = 0;  // Number of the last restoration; 0: never.
  int64_t term = 0;           // As Welcome.term; not stored.
  std::vector<Job> jobs;
  std::vector<Node> nodes;
  Automation automation;
  std::map<std::string, RequestLog::Entry> requests;
  std::map<JobId, std::vector<RemedyDecision>> decisions;  // By id.
  std::map<JobId, std::vector<JobLifeEvent>> events;       // By id.
};

// Loads everything and counts the start. A new store gets a cluster id; after a restoration jobs
// are adjusted (controller/core/recovery/restart.h). DataLoss, naming the key, when a record cannot
// be read.
absl::StatusOr<StoredState> LoadState(StateStore& store);

// Returns Welcome.term of the controller that loaded the state. `elected`: term of an election as
// counted by etcd, where terms restart low when a snapshot was restored; 0: there is a single
// controller, whose starts are counted.
int64_t TermOf(const StoredState& state, int64_t elected);

// Adds the changes that `identities` has made to join tokens and revocations to the batch.
void Write(const Identities::Changes& changes, const Identities& identities, WriteBatch* batch);

// Loads all join tokens and revocations. DataLoss, naming the key, when a record cannot be read.
absl::StatusOr<Identities> LoadIdentities(StateStore& store);

}  // namespace paceline

#endif  // CONTROLLER_STORE_RECORDS_H_
