#include "tests/sim/coverage.h"

#include <algorithm>
#include <utility>

#include "controller/core/recovery/membership.h"

namespace paceline::sim {
namespace {

// Counter by a part of the job's reason.
constexpr std::pair<const char*, const char*> kReasons[] = {
    {"preempted by", "job preempted"},
    {"crash loop", "crash loop"},
    {"and others wait for the rank", "rank given up on evidence"},
    {"has not answered for", "rank given up with its lost node"},
    {"its stacks are in", "rank that hung replaced"},
    {"its process is stopped", "rank that was stopped replaced"},
    {"did not come about", "generation that did not come about"},
    {"the members rendezvous again", "members rendezvoused again, nobody lost"},
    {"recovery.max_failures is", "budget of failures spent"},
    {"waits for ", "recovery waited for a slot"},
    {"is left with", "state lost"},
    {"within give_up_s", "recovery given up"},
    {"takes seat", "seat taken"},
    {"none of its nodes answers", "job left alone while its nodes are cut off together"},
};

bool IsThere(const Job& job, const TrainerId& id, bool member) {
  const auto trainers = TrainersOf(job);
  return std::any_of(trainers.begin(), trainers.end(), [&](const RankState* trainer) {
    return trainer->report.id == id && !HasEnded(*trainer) && !IsLost(*trainer) &&
           !(member && trainer->stop.has_value());
  });
}

bool AnyGone(const Job& job, const std::vector<TrainerId>& ids, bool member) {
  return std::any_of(ids.begin(), ids.end(),
                     [&](const TrainerId& id) { return !IsThere(job, id, member); });
}

}  // namespace

void Coverage::OnStep(const Cluster& cluster) {
  for (const auto& [id, job] : cluster.jobs()) {
    Seen& seen = seen_[id];
    const bool news = std::exchange(seen.reason, job.reason) != job.reason ||
                      std::exchange(seen.state, job.state) != job.state;
    if (news) {
      for (const auto& [part, what] : kReasons) {
        if (job.reason.find(part) != std::string::npos) Count(what);
      }
    }
    const MembershipChange* change = ChangeUnderWay(job);
    if (job.generation.value() != seen.generation && change != nullptr) {
      OnNewGeneration(job, *change, seen);
    } else if (seen.under_way && change == nullptr && job.generation.value() == seen.generation) {
      Count(seen.planned ? "planned change came about" : "recovery came about");
    }
    seen.generation = job.generation.value();
    seen.under_way = change != nullptr;
    seen.planned = change != nullptr && change->planned;
  }
  for (const auto& [name, node] : cluster.nodes()) {
    const auto entered = [&, &n = name](bool now, std::set<NodeName>& in, const char* what) {
      if (!now) in.erase(n);
      if (now && in.insert(n).second) Count(what);
    };
    entered(node.contact == Contact::kLost, lost_, "node lost");
    entered(node.state == NodeState::kDrained, drained_, "node drained");
  }
}

void Coverage::OnNewGeneration(const Job& job, const MembershipChange& change, Seen& seen) {
  if (seen.under_way && seen.planned) OnInterrupted(job, seen);
  if (seen.under_way && !seen.planned) Count("recovery interrupted by another loss");
  if (std::any_of(job.ranks.begin(), job.ranks.end(), [&](const RankState& member) {
        return HasTrained(member) && !HasState(job, member);
      })) {
    Count("who stood by comes back");
  }
  if (change.ranks_after < change.ranks_before) {
    Count("job shrank");
    seen.shrank = true;
    seen.grew = false;
  }
  if (!change.planned) return;
  if (change.ranks_after > change.ranks_before) {
    Count("growth begun");
    seen.grew = seen.shrank;
  }
  seen.newcomers.clear();
  seen.stayers.clear();
  seen.leavers.clear();
  for (const RankState& member : job.ranks) {
    (HasState(job, member) ? seen.stayers : seen.newcomers).push_back(member.report.id);
  }
  for (const RankState& leaver : job.leaving) {
    if (!leaver.stop.has_value()) seen.leavers.push_back(leaver.report.id);
  }
  if (seen.leavers.empty()) return;
  Count("swap begun");
  if (seen.grew) Count("swap after the job had shrunk and grown");
}

void Coverage::OnInterrupted(const Job& job, const Seen& seen) {
  const std::string what = seen.leavers.empty() ? "growth" : "swap";
  bool explained = false;
  const auto gone = [&](const std::vector<TrainerId>& ids, bool member, const char* who) {
    if (!AnyGone(job, ids, member)) return;
    explained = true;
    Count(what + " interrupted: " + who + " lost");
  };
  gone(seen.newcomers, true, "newcomer");
  gone(seen.stayers, true, "stayer");
  gone(seen.leavers, false, "leaver");
  if (!explained) Count(what + " interrupted: nobody lost");
}

void Coverage::OnRestored(const Cluster& cluster) {
  for (const auto& [id, job] : cluster.jobs()) {
    const MembershipChange* change = ChangeUnderWay(job);
    if (change == nullptr || job.ended_already()) continue;
    Count(change->planned ? "controller restarted during a planned change"
                          : "controller restarted during a recovery");
  }
}

}  // namespace paceline::sim
