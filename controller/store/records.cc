#include "controller/store/records.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/core/status_macros.h"
#include "common/uuid.h"
#include "controller/core/recovery/restart.h"
#include "controller/store/meta_keys.h"
#include "controller/store/record.pb.h"
#include "controller/wire/convert.h"
#include "controller/wire/convert_artifact.h"
#include "controller/wire/convert_checkpoint.h"
#include "controller/wire/convert_membership.h"
#include "controller/wire/convert_node.h"
#include "controller/wire/convert_plan.h"
#include "controller/wire/convert_straggler.h"

namespace paceline {
namespace {

NodeChecks DecodeChecks(const v1::NodeRecord& record) {
  NodeChecks checks;
  checks.asked = record.check_asked();
  checks.running = record.check_running();
  checks.begun = FromProto(record.check_begin_time());
  checks.peer = record.check_peer();
  checks.peer_address = record.check_peer_address();
  if (record.node().has_check()) checks.result = FromProto(record.node().check());
  for (const auto& [name, values] : record.earlier()) {
    checks.earlier[name].assign(values.value().begin(), values.value().end());
  }
  return checks;
}

// Returns the stored nodes, or the ranks' nodes for a record of a version without the field.
std::vector<NodeName> DecodeNodes(const v1::JobRecord& record) {
  std::set<NodeName> nodes;
  for (const std::string& node : record.nodes()) nodes.insert(NodeName(node));
  for (const v1::Rank& rank : record.job().ranks()) nodes.insert(NodeName(rank.node()));
  return {nodes.begin(), nodes.end()};
}

Job DecodeJob(const v1::JobRecord& record) {
  const v1::Job& stored = record.job();
  Job job;
  job.request = FromProto(JobId(stored.id()), stored.spec());
  job.number = record.number();
  job.submitter = stored.submitter();
  job.state = FromProto(stored.state());
  job.reason = stored.reason();
  const auto time = [](bool has, const google::protobuf::Timestamp& value) {
    return has ? FromProto(value) : absl::InfinitePast();
  };
  job.created = FromProto(stored.create_time());
  job.placed = time(record.has_placed_time(), record.placed_time());
  job.started = time(stored.has_start_time(), stored.start_time());
  job.ended = time(stored.has_end_time(), stored.end_time());
  job.generation = Generation(stored.generation());
  job.generations_used = Generation(record.generations_used());
  if (record.has_stop_grace_s()) {
    job.stop = StopOrder{absl::Seconds(record.stop_grace_s()), absl::InfiniteFuture()};
  }
  if (stored.has_failure()) {
    job.failure = JobFailure{Rank(stored.failure().rank()), NodeName(stored.failure().node()),
                             FromProto(stored.failure().exit())};
  }
  if (stored.has_evaluation()) job.evaluation = FromProto(stored.evaluation());
  if (stored.has_plan()) {
    job.plan = {PlanVersion(stored.plan().version()), stored.plan().strategy().SerializeAsString()};
  } else {  // The version had no plans.
    job.plan.strategy = job.request.strategy_spec;
  }
  if (stored.has_profile()) job.profile = FromProto(stored.profile());
  job.nodes = DecodeNodes(record);
  job.artifacts = ArtifactsOf(stored);
  job.checkpoints = DecodeCheckpoints(record);
  job.start = record.start_since() > 0
                  ? StartPoint{record.start_directory(), Generation(record.start_since())}
                  : StartPoint{job.request.resume_from, Generation(1)};
  // Earlier releases did not say.
  job.origin = stored.has_made_from() ? stored.made_from().directory() : job.request.resume_from;
  job.restored_from = stored.restored_from();
  job.restarts = stored.restarts();
  job.restart_reason = record.restart_reason();
  job.asked_to_stop = record.asked_to_stop();
  job.requeue = record.requeue();
  DecodeMembership(record, &job);
  return job;
}

// Calls `use(id, record)` for every record under `prefix`.
template <typename Record, typename Use>
absl::Status ForEach(StateStore& store, const std::string& prefix, Use use) {
  PACELINE_ASSIGN_OR_RETURN(const auto entries, store.Load(prefix));
  for (const auto& [key, value] : entries) {
    Record record;
    if (!record.ParseFromString(value)) {
      return absl::DataLossError(absl::StrCat("state store: the record ", key, " is damaged"));
    }
    use(key.substr(prefix.size()), record);
  }
  return absl::OkStatus();
}

// Adjusts the jobs to a restoration (controller/core/recovery/restart.h), and adds an event about
// it. The ids of later events were not used before: a job has less than one event per minute.
void TakeUpRestored(StoredState& state, absl::Time wall_now, WriteBatch& batch) {
  // Steady times do not survive a restart.
  const Moment now{absl::UnixEpoch(), wall_now};
  for (Job& job : state.jobs) {
    const bool goes_on = !job.ended_already();
    TakeUpAfterRestoration(job, Generation(state.restored), now);
    batch.puts[JobKey(job.request.id)] = EncodeJob(job);
    if (!goes_on) continue;
    std::vector<JobLifeEvent>& events = state.events[job.request.id];
    JobLifeEvent event;
    event.id = std::max(events.empty() ? 1 : events.back().id + 1, state.restored / 60);
    event.time = wall_now;
    event.kind = JobEventKind::kRestart;
    event.state = job.state;
    event.generation = job.generation;
    event.warning = true;
    event.what = kRestoredReason;
    batch.puts[EventKey(job.request.id, event.id)] = EncodeEvent(event);
    events.push_back(std::move(event));
  }
}

absl::Status LoadMeta(StateStore& store, StoredState& state) {
  PACELINE_ASSIGN_OR_RETURN(auto meta, store.Load("meta/"));
  if (!absl::SimpleAtoi(meta[kStartsKey], &state.starts)) state.starts = 0;
  ++state.starts;
  state.cluster_id = meta[kClusterIdKey];
  if (state.cluster_id.empty()) state.cluster_id = NewUuid();
  WriteBatch batch;
  const std::string restored = meta[kRestoredKey];
  if (!restored.empty()) {
    if (!absl::SimpleAtoi(restored, &state.restored)) {
      return absl::DataLossError(
          absl::StrCat("state store: the record ", kRestoredKey, " is damaged"));
    }
    TakeUpRestored(state, absl::Now(), batch);
    batch.deletes.push_back(kRestoredKey);
    batch.puts[kLastRestoredKey] = restored;
    meta[kLastRestoredKey] = restored;
    state.starts = std::max(state.starts, state.restored);
  }
  const std::string last = meta[kLastRestoredKey];
  if (!last.empty() && !absl::SimpleAtoi(last, &state.last_restored)) {
    return absl::DataLossError(
        absl::StrCat("state store: the record ", kLastRestoredKey, " is damaged"));
  }
  batch.puts[kClusterIdKey] = state.cluster_id;
  batch.puts[kStartsKey] = absl::StrCat(state.starts);
  return store.Commit(batch);
}

constexpr char kTokens[] = "token/";
constexpr char kRevocations[] = "revoked/";

std::string Encode(const JoinToken& token) {
  v1::JoinTokenRecord record;
  record.set_node(token.node.value());
  *record.mutable_create_time() = ToProto(token.created);
  *record.mutable_expire_time() = ToProto(token.expires);
  record.set_owner(token.owner);
  record.set_request_id(token.request);
  if (token.used != absl::InfinitePast()) *record.mutable_use_time() = ToProto(token.used);
  record.set_used_by(token.used_by);
  return record.SerializeAsString();
}

JoinToken Decode(const v1::JoinTokenRecord& record) {
  return {NodeName(record.node()),
          FromProto(record.create_time()),
          FromProto(record.expire_time()),
          record.owner(),
          record.request_id(),
          record.has_use_time() ? FromProto(record.use_time()) : absl::InfinitePast(),
          record.used_by()};
}

std::string Encode(const Revocation& revocation) {
  v1::RevocationRecord record;
  *record.mutable_before() = ToProto(revocation.before);
  record.set_reason(revocation.reason);
  record.set_owner(revocation.owner);
  return record.SerializeAsString();
}

Revocation Decode(const v1::RevocationRecord& record) {
  return {FromProto(record.before()), record.reason(), record.owner()};
}

// Loads all records under `prefix`, by the rest of their keys.
template <typename Record, typename Value>
absl::Status Load(StateStore& store, const std::string& prefix,
                  std::map<std::string, Value>* values) {
  PACELINE_ASSIGN_OR_RETURN(const auto entries, store.Load(prefix));
  for (const auto& [key, text] : entries) {
    Record record;
    if (!record.ParseFromString(text)) {
      return absl::DataLossError(absl::StrCat("state store: the record ", key, " is damaged"));
    }
    (*values)[key.substr(prefix.size())] = Decode(record);
  }
  return absl::OkStatus();
}

}  // namespace

Node DecodeNode(const v1::NodeRecord& record) {
  const v1::Node& stored = record.node();
  Node node;
  node.facts.name = NodeName(stored.name());
  node.facts.uid = record.uid();
  node.facts.cpus = stored.hardware().cpus();
  node.facts.memory_bytes = stored.hardware().memory_bytes();
  node.facts.gpus.assign(stored.hardware().gpus().begin(), stored.hardware().gpus().end());
  node.facts.gpu_memory_bytes.assign(stored.hardware().gpu_memory_bytes().begin(),
                                     stored.hardware().gpu_memory_bytes().end());
  node.facts.os = stored.hardware().os();
  node.facts.labels.insert(stored.labels().begin(), stored.labels().end());
  node.facts.address = stored.address();
  node.facts.metrics_address = stored.metrics_address();
  node.facts.slots = stored.slots();
  node.facts.version = stored.version();
  node.facts.spec_version = stored.spec_version();
  node.registered = FromProto(stored.register_time());
  node.last_report = FromProto(stored.last_report_time());
  for (const v1::Hold& hold : stored.holds()) node.holds.push_back(FromProto(hold));
  for (const v1::NodeHistoryEvent& event : record.history()) {
    node.history.push_back(FromProto(event));
  }
  if (record.lost()) {
    node.contact = Contact::kLost;
    node.contact_reason = record.lost_reason();
  }
  node.checks = DecodeChecks(record);
  return node;
}

std::string EncodeNode(const Node& node, const Cluster& cluster) {
  v1::NodeRecord record;
  *record.mutable_node() = ToProto(node, cluster);
  record.set_uid(node.facts.uid);
  for (const NodeLifeEvent& event : node.history) *record.add_history() = ToProto(event);
  if (node.contact == Contact::kLost) {
    record.set_lost(true);
    record.set_lost_reason(node.contact_reason);
  }
  record.set_check_asked(node.checks.asked);
  record.set_check_running(node.checks.running);
  *record.mutable_check_begin_time() = ToProto(node.checks.begun);
  record.set_check_peer(node.checks.peer);
  record.set_check_peer_address(node.checks.peer_address);
  for (const auto& [name, values] : node.checks.earlier) {
    v1::NodeRecord::Values& kept = (*record.mutable_earlier())[name];
    for (const double value : values) kept.add_value(value);
  }
  return record.SerializeAsString();
}

std::string JobKey(const JobId& id) { return absl::StrCat("job/", id.value()); }
std::string NodeKey(const NodeName& name) { return absl::StrCat("node/", name.value()); }
std::string RequestKey(const std::string& id) { return absl::StrCat("request/", id); }

std::string DecisionKey(const JobId& job, int64_t id) {
  return absl::StrCat("decision/", job.value(), "/", absl::Dec(id, absl::kZeroPad8));
}

std::string EventKey(const JobId& job, int64_t id) {
  return absl::StrCat("event/", job.value(), "/", absl::Dec(id, absl::kZeroPad8));
}

std::string EncodeJob(const Job& job) {
  v1::JobRecord record;
  *record.mutable_job() = ToProto(job, job.created);
  // Which nodes are heard from now is of no use to a later controller.
  for (v1::Rank& rank : *record.mutable_job()->mutable_ranks()) rank.clear_last_heard();
  for (v1::Rank& spare : *record.mutable_job()->mutable_spares()) spare.clear_last_heard();
  record.set_number(job.number);
  if (job.placed != absl::InfinitePast()) *record.mutable_placed_time() = ToProto(job.placed);
  EncodeMembership(job, &record);
  if (job.stop.has_value()) record.set_stop_grace_s(absl::ToDoubleSeconds(job.stop->grace));
  for (const Checkpoint& checkpoint : job.checkpoints.records) {
    *record.add_checkpoints() = ToProto(job, checkpoint);
  }
  *record.mutable_saving() = EncodeSaving(job.checkpoints);
  for (const NodeName& node : job.nodes) record.add_nodes(node.value());
  record.set_start_directory(job.start.directory);
  record.set_start_since(job.start.since.value());
  record.set_restart_reason(job.restart_reason);
  record.set_asked_to_stop(job.asked_to_stop);
  record.set_requeue(job.requeue);
  record.set_generations_used(job.generations_used.value());
  return record.SerializeAsString();
}

std::string EncodeAutomation(const Automation& automation) {
  return ToProto(automation).SerializeAsString();
}

std::string EncodeRequest(const RequestLog::Entry& entry) {
  v1::RequestRecord record;
  record.set_fingerprint(entry.fingerprint);
  record.set_job_id(entry.job.value());
  *record.mutable_time() = ToProto(entry.time);
  if (!(entry.checkpoint == CheckpointKey())) {
    record.mutable_checkpoint()->set_step(entry.checkpoint.step);
    record.mutable_checkpoint()->set_generation(entry.checkpoint.generation);
  }
  return record.SerializeAsString();
}

std::string EncodeDecision(const RemedyDecision& decision) {
  return ToProto(decision).SerializeAsString();
}

std::string EncodeEvent(const JobLifeEvent& event) { return ToProto(event).SerializeAsString(); }

absl::StatusOr<StoredState> LoadState(StateStore& store) {
  StoredState state;
  PACELINE_RETURN_IF_ERROR(ForEach<v1::JobRecord>(
      store, "job/",
      [&](const std::string&, const v1::JobRecord& r) { state.jobs.push_back(DecodeJob(r)); }));
  PACELINE_RETURN_IF_ERROR(ForEach<v1::NodeRecord>(
      store, "node/",
      [&](const std::string&, const v1::NodeRecord& r) { state.nodes.push_back(DecodeNode(r)); }));
  PACELINE_RETURN_IF_ERROR(ForEach<v1::RequestRecord>(
      store, "request/", [&](const std::string& id, const v1::RequestRecord& r) {
        state.requests[id] = {r.fingerprint(),
                              JobId(r.job_id()),
                              FromProto(r.time()),
                              {r.checkpoint().step(), r.checkpoint().generation()}};
      }));
  PACELINE_RETURN_IF_ERROR(ForEach<v1::AutomationStatus>(
      store, kAutomationKey, [&](const std::string&, const v1::AutomationStatus& status) {
        state.automation = FromProto(status);
      }));
  PACELINE_RETURN_IF_ERROR(ForEach<v1::RemedyDecision>(
      store, "decision/", [&](const std::string& id, const v1::RemedyDecision& decision) {
        state.decisions[JobId(id.substr(0, id.find('/')))].push_back(FromProto(decision));
      }));
  PACELINE_RETURN_IF_ERROR(ForEach<v1::JobHistoryEvent>(
      store, "event/", [&](const std::string& id, const v1::JobHistoryEvent& event) {
        state.events[JobId(id.substr(0, id.find('/')))].push_back(FromProto(event));
      }));
  PACELINE_RETURN_IF_ERROR(LoadMeta(store, state));
  return state;
}

int64_t TermOf(const StoredState& state, int64_t elected) {
  // Above all earlier terms, of which there are less than 2^32.
  return elected > 0 ? (state.last_restored << 32) + elected : state.starts;
}

void Write(const Identities::Changes& changes, const Identities& identities, WriteBatch* batch) {
  for (const std::string& digest : changes.store_tokens) {
    batch->puts[kTokens + digest] = Encode(identities.tokens().at(digest));
  }
  for (const std::string& digest : changes.delete_tokens) {
    batch->deletes.push_back(kTokens + digest);
  }
  for (const std::string& principal : changes.store_revocations) {
    batch->puts[kRevocations + principal] = Encode(identities.revocations().at(principal));
  }
}

absl::StatusOr<Identities> LoadIdentities(StateStore& store) {
  Identities::Tokens tokens;
  Identities::Revocations revocations;
  PACELINE_RETURN_IF_ERROR(Load<v1::JoinTokenRecord>(store, kTokens, &tokens));
  PACELINE_RETURN_IF_ERROR(Load<v1::RevocationRecord>(store, kRevocations, &revocations));
  return Identities(std::move(tokens), std::move(revocations));
}

}  // namespace paceline
