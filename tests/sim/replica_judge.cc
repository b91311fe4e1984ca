#include "tests/sim/replica_judge.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "controller/core/recovery/elastic.h"
#include "controller/core/recovery/membership.h"

namespace paceline::sim {
namespace {

bool IsPrepared(const ModelPart& part, bool mean) {
  return mean ? part.at.mean_prepared : part.at.prepared;
}

// The narrowest kind of domain that both slots are in.
Span SpanOf(const Slot& a, const Slot& b) {
  if (a.node == b.node) return Span::kNode;
  if (a.rack != b.rack) return Span::kAnywhere;
  return a.island == b.island ? Span::kIsland : Span::kRack;
}

// By replica: the narrowest kind of domain with all its ranks.
std::map<int, Span> SpansOf(const Job& job) {
  const Lanes lanes{job.request.shards};
  std::map<int, Span> spans;
  for (size_t rank = 0; rank < job.ranks.size(); ++rank) {
    const int position = lanes.PositionOf(static_cast<int>(rank));
    const RankState& first = job.ranks[rank - static_cast<size_t>(position)];
    Span& span = spans.emplace(lanes.ReplicaOf(first.seat), Span::kNode).first->second;
    span = std::max(span, SpanOf(first.slot, job.ranks[rank].slot));
  }
  return spans;
}

bool AreAtOnePlace(const RankPosition& a, const RankPosition& b) {
  return a.step == b.step && a.exchanged == b.exchanged && a.left_out == b.left_out &&
         a.means == b.means && a.final_mean == b.final_mean;
}

// Whether, of those with a state, some have carried out the decision of a rendezvous that was cut
// off, and others, who were not there, may be ahead of them: then the state of these is void.
bool HaveGoneBack(const std::vector<const Trainer*>& members) {
  std::vector<RankPosition> held;
  int64_t newest = 0;
  for (const Trainer* member : members) {
    if (member->part().lost || !member->has_trained()) continue;
    held.push_back(member->part().at);
    newest = std::max(newest, held.back().decided);
  }
  return std::any_of(held.begin(), held.end(), [&](const RankPosition& went) {
    if (went.decided < newest || went.decided <= went.generation) return false;
    return std::any_of(held.begin(), held.end(), [&](const RankPosition& other) {
      return other.decided < newest && !AreAtOnePlace(went, other);
    });
  });
}

}  // namespace

void ReplicaJudge::Note(const std::string& what) {
  if (noted_.insert(what).second) {
    world_.coverage.Count(absl::StrCat("history with shards: ", what));
  }
}

// ---- What the controller decides.

ReplicaJudge::Seen ReplicaJudge::See(const Job& job) {
  Seen seen;
  seen.generation = job.generation.value();
  for (const RankState& member : job.ranks) {
    seen.holders[member.seat] = member.report.id;
    seen.nodes[member.seat] = member.slot.node;
  }
  seen.spans = SpansOf(job);
  return seen;
}

ReplicaJudge::Known ReplicaJudge::KnownOf(const Job& job) {
  Known known;
  known.generation = job.generation.value();
  for (const RankState& member : job.ranks) {
    known.trained[member.report.id] = member.report.membership.generation.value();
  }
  return known;
}

void ReplicaJudge::OnRestored(const Cluster& cluster) {
  seen_.clear();
  for (const auto& [id, job] : cluster.jobs()) seen_[id] = See(job);
}

void ReplicaJudge::OnStep(const Cluster& cluster) {
  if (world_.settings.shards == 1) return;
  for (const auto& [id, job] : cluster.jobs()) {
    Seen& seen = seen_[id];
    if (job.generation.value() == seen.generation || job.ranks.empty()) continue;
    CheckWhole(job);
    CheckDomains(job);
    known_[id] = KnownOf(job);
    if (job.recovery.started != job.generation) {
      CheckChange(job, seen);
      CheckMoves(job, seen);
    }
    seen = See(job);
  }
}

void ReplicaJudge::CheckWhole(const Job& job) {
  const Lanes lanes{job.request.shards};
  const std::string generation =
      absl::StrCat("generation ", job.generation.value(), " of ", job.request.id.value());
  std::map<int, int> members;  // By replica.
  for (size_t rank = 0; rank < job.ranks.size(); ++rank) {
    const int seat = job.ranks[rank].seat;
    ++members[lanes.ReplicaOf(seat)];
    if (lanes.PositionOf(seat) != lanes.PositionOf(static_cast<int>(rank))) {
      world_.trace.Fail(generation, ": rank ", rank, " has seat ", seat,
                        ", which is of another position");
    }
  }
  for (const auto& [replica, count] : members) {
    if (count == lanes.shards) continue;
    world_.trace.Fail(generation, " has ", count, " of the ", lanes.shards, " ranks of replica ",
                      replica);
  }
}

void ReplicaJudge::CheckDomains(const Job& job) {
  if (job.request.placement.replica != ReplicaPlacement::kRequire) return;
  const Lanes lanes{job.request.shards};
  Span widest = Span::kNode;
  for (size_t rank = 0; rank < job.ranks.size(); ++rank) {
    const int position = lanes.PositionOf(static_cast<int>(rank));
    const RankState& first = job.ranks[rank - static_cast<size_t>(position)];
    widest = std::max(widest, SpanOf(first.slot, job.ranks[rank].slot));
  }
  const bool starts = job.recovery.started == job.generation;
  const Span allowed = starts ? Span::kRack : widest_[job.request.id];
  if (starts) widest_[job.request.id] = widest;
  if (widest <= allowed) return;
  world_.trace.Fail("generation ", job.generation.value(), " of ", job.request.id.value(),
                    " has a replica ", DescribeSpan(widest), ", and all have to be ",
                    DescribeSpan(allowed));
}

void ReplicaJudge::CheckMoves(const Job& job, const Seen& before) {
  if (job.recovery.history.empty() || !job.recovery.history.back().planned) return;
  const Lanes lanes{job.request.shards};
  const std::map<int, Span> spans = SpansOf(job);
  for (const RankState& member : job.ranks) {
    const auto holder = before.holders.find(member.seat);
    if (holder == before.holders.end() || holder->second == member.report.id) continue;
    const NodeName& node = before.nodes.at(member.seat);
    if (job.recovery.vacate.count(node) > 0) continue;
    const int replica = lanes.ReplicaOf(member.seat);
    if (spans.at(replica) < before.spans.at(replica)) {
      Note("replica mended");
      continue;
    }
    world_.trace.Fail("rank ", RankOf(job, member).value(), " of ", job.request.id.value(),
                      " moves off ", node.value(), ", and its replica is as stretched as before");
  }
}

void ReplicaJudge::CheckChange(const Job& job, const Seen& before) {
  const Lanes lanes{job.request.shards};
  const bool has_domains = job.request.placement.replica == ReplicaPlacement::kRequire;
  std::set<int> earlier;  // Replicas.
  std::set<int> present;
  for (const auto& [seat, holder] : before.holders) earlier.insert(lanes.ReplicaOf(seat));
  for (const RankState& member : job.ranks) {
    present.insert(lanes.ReplicaOf(member.seat));
    const auto holder = before.holders.find(member.seat);
    if (holder != before.holders.end() && !(holder->second == member.report.id)) {
      Note(has_domains ? "rank replaced in a domain" : "rank replaced");
    }
  }
  if (!std::includes(earlier.begin(), earlier.end(), present.begin(), present.end())) {
    Note("grew by a replica");
  }
  if (std::includes(present.begin(), present.end(), earlier.begin(), earlier.end())) return;
  Note("shrank by a replica");
  if (has_domains) return;  // What is left over may be elsewhere.
  const MembershipChange* const change = ChangeUnderWay(job);
  if (change == nullptr || change->planned) return;  // It makes room for others.
  const int ranks = static_cast<int>(job.ranks.size());
  const int idle =
      static_cast<int>(std::count_if(job.spares.begin(), job.spares.end(),
                                     [&](const RankState& spare) { return IsUsable(job, spare); }));
  const int most = IsElastic(job.request) ? change->ranks_before : job.request.ranks;
  const int possible = PossibleRanksOf(job.request, std::min(most, ranks + idle));
  if (possible <= ranks) return;
  world_.trace.Fail(job.request.id.value(), " g", job.generation.value(),
                    " gives up a replica, and ", idle, " trainers stand by: it could go on with ",
                    possible, " ranks, not ", ranks);
}

// ---- Steps, and means of parameters.

void ReplicaJudge::OnShared(const std::vector<const Trainer*>& sharers, const Lanes& lanes,
                            bool mean) {
  const Trainer& first = *sharers.front();
  const bool all_alike = first.facts().mean_period == 0;
  for (size_t i = 0; i < sharers.size(); ++i) {
    const Trainer& trainer = *sharers[i];
    const int position = lanes.PositionOf(static_cast<int>(i));
    if (trainer.step() != first.step()) {
      world_.trace.Fail(first.name(), " and ", trainer.name(), " share a ", mean ? "mean" : "step",
                        " after steps ", first.step(), " and ", trainer.step());
    }
    if (trainer.part().position != position) {
      world_.trace.Fail(trainer.name(), " trains at position ", position, " with the part of ",
                        trainer.part().position);
    }
    const Trainer& other = all_alike ? first : *sharers[i - static_cast<size_t>(position)];
    if (trainer.part().state != other.part().state) {
      world_.trace.Fail("the parts of ", other.name(), " and ", trainer.name(),
                        " do not belong together after step ", trainer.step());
    }
  }
}

void ReplicaJudge::OnWord(const std::vector<const Trainer*>& sharers, bool mean) {
  const uint64_t result = sharers.front()->part().result;
  for (const Trainer* trainer : sharers) {
    if (IsPrepared(trainer->part(), mean) && trainer->part().result == result) continue;
    world_.trace.Fail(trainer->name(), " has given its word for what follows on step ",
                      trainer->step(), ", and is not prepared");
  }
  words_.insert(result);
}

void ReplicaJudge::OnApplying(const Trainer& trainer, bool mean) {
  const char* const what = mean ? "mean" : "step";
  if (!IsPrepared(trainer.part(), mean)) {
    world_.trace.Fail(trainer.name(), " applies a ", what, " that it is not prepared for");
  } else if (words_.count(trainer.part().result) == 0) {
    world_.trace.Fail(trainer.name(), " applies a ", what,
                      " for which not all ranks that share it are prepared");
  }
}

// ---- Rendezvous.

// What members have trained in since, what they have given up, and who has gone back at a
// rendezvous that was cut off, the controller may not have known.
void ReplicaJudge::OnStateLost(const JobId& job, int64_t generation,
                               const std::vector<const Trainer*>& members, const std::string& why) {
  Note("state lost at a rendezvous");
  const auto found = known_.find(job);
  if (found == known_.end() || found->second.generation != generation) return;
  const Known& known = found->second;
  for (const Trainer* member : members) {
    const auto trained = known.trained.find(member->id());
    if (trained == known.trained.end() || trained->second != member->trained_generation()) return;
  }
  if (HaveGoneBack(members)) return;
  world_.trace.Fail(job.value(), " g", generation,
                    " was begun, and its members cannot go on: ", why);
}

void ReplicaJudge::OnTransfer(const Trainer& to, int position, const HeldPart& from) {
  if (!from.any) {
    world_.trace.Fail(to.name(), " gets its state from rank ", from.source, ", which has none");
  } else if (from.position != position) {
    world_.trace.Fail(to.name(), " gets its state for position ", position, " from rank ",
                      from.source, ", which has that of position ", from.position);
  }
}

void ReplicaJudge::OnMet(const std::vector<const Trainer*>& trainers, const Lanes& lanes,
                         const std::vector<HeldPart>& held,
                         const std::vector<RankPosition>& positions) {
  const bool all_alike = trainers.front()->facts().mean_period == 0;
  for (size_t rank = 0; rank < held.size(); ++rank) {
    const HeldPart& part = held[rank];
    const int position = lanes.PositionOf(static_cast<int>(rank));
    const size_t first = rank - static_cast<size_t>(position);  // Of its replica.
    const std::string name = trainers[rank]->name();
    if (!part.any || part.position != position) {
      world_.trace.Fail(name, " goes on at position ", position, ", and has ",
                        part.any ? absl::StrCat("the part of ", part.position) : "no state");
    }
    if (part.step != positions[rank].step) {
      world_.trace.Fail(name, " goes on at step ", positions[rank].step, ", and has done ",
                        part.step);
    }
    const HeldPart& other = held[all_alike ? 0 : first];
    if (part.step != other.step || part.state != other.state) {
      world_.trace.Fail("after the rendezvous the parts of ",
                        trainers[all_alike ? 0 : first]->name(), " and ", name,
                        " do not belong together: steps ", other.step, " and ", part.step);
    }
  }
}

// ---- Checkpoints.

void ReplicaJudge::OnSave(const Trainer& trainer, const std::string& directory, int rank) {
  const ModelPart& part = trainer.part();
  if (saved_[directory].emplace(rank, SavedPart{part.position, part.state}).second) return;
  world_.trace.Fail(trainer.name(), " writes the part of rank ", rank, " in ", directory,
                    ", which was written before");
}

void ReplicaJudge::OnManifest(const std::string& directory, int ranks, const Lanes& lanes) {
  const std::map<int, SavedPart>& parts = saved_[directory];
  if (static_cast<int>(parts.size()) != ranks || ranks % lanes.shards != 0) {
    world_.trace.Fail(directory, " is complete with ", parts.size(), " parts of ", ranks, " ranks");
  }
  for (const auto& [rank, part] : parts) {
    const auto first = parts.find(rank - lanes.PositionOf(rank));
    if (rank < 0 || rank >= ranks || part.position != lanes.PositionOf(rank) ||
        first == parts.end() || first->second.state != part.state) {
      world_.trace.Fail(directory, " is complete, and the part of rank ", rank,
                        " does not belong to the others of its replica");
    }
  }
}

}  // namespace paceline::sim
