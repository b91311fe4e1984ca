#include "cli/view/node/cluster_page.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cli/text/sanitize.h"
#include "cli/text/style.h"
#include "cli/view/checkpoint/checkpoint_text.h"
#include "cli/view/job/job_text.h"
#include "cli/view/numbers.h"

namespace paceline {
namespace {

// Longer lists are cut; the commands named with them show everything.
constexpr size_t kMostNames = 5;

std::string NamesText(const std::vector<std::string>& names) {
  const size_t shown = std::min(names.size(), kMostNames);
  std::string text = SanitizeLine(absl::StrJoin(names.begin(), names.begin() + shown, ", "));
  if (names.size() > shown) absl::StrAppend(&text, " and ", names.size() - shown, " more");
  return text;
}

std::vector<std::string> NodesIn(const ClusterFacts& facts, v1::NodeState state) {
  std::vector<std::string> names;
  for (const v1::Node& node : facts.nodes) {
    if (node.state() == state) names.push_back(node.name());
  }
  return names;
}

void AddNodes(const ClusterFacts& facts, v1::NodeState state, const std::string& what,
              std::vector<std::string>* attention) {
  const std::vector<std::string> names = NodesIn(facts, state);
  if (names.empty()) return;
  attention->push_back(absl::StrCat(NamesText(names), names.size() == 1 ? " is " : " are ",
                                    StateText(state), ": ", what));
}

const char* const kNodeChecks = "`paceline node describe NODE` tells why";

std::string CountsText(const std::map<std::string, int>& counts, int all) {
  if (all == 0) return "none";
  return absl::StrCat(all, " (",
                      absl::StrJoin(counts, ", ",
                                    [](std::string* out, const auto& count) {
                                      absl::StrAppend(out, count.second, " ", count.first);
                                    }),
                      ")");
}

}  // namespace

ClusterCounts CountsOf(const ClusterFacts& facts) {
  ClusterCounts counts;
  for (const v1::Node& node : facts.nodes) {
    ++counts.nodes[StateText(node.state())];
    counts.slots += node.slots();
    counts.slots_used += node.slots_used();
    counts.gpus += node.hardware().gpus_size();
    counts.gpus_used += node.gpus_used();
  }
  for (const v1::Job& job : facts.jobs) {
    ++counts.jobs[StateText(job.state())];
    counts.ranks += job.ranks_size();
  }
  return counts;
}

std::vector<std::string> AttentionOf(const ClusterFacts& facts, absl::Time now) {
  std::vector<std::string> attention;
  AddNodes(facts, v1::NODE_LOST, kNodeChecks, &attention);
  AddNodes(facts, v1::NODE_UNREACHABLE, kNodeChecks, &attention);
  if (facts.automation.paused()) {
    attention.push_back(absl::StrCat("the automation is paused by ",
                                     SanitizeLine(facts.automation.owner()), ": ",
                                     SanitizeLine(facts.automation.reason()),
                                     "; `paceline automation resume` lets it act again"));
  }
  for (const v1::Job& job : facts.jobs) {
    const std::string name = JobNameText(job);
    if (const std::string trouble = SaveTroubleText(job, now); !trouble.empty()) {
      attention.push_back(absl::StrCat(name, ": ", trouble));
    }
    if (const std::string trouble = CopyTroubleText(job); !trouble.empty()) {
      attention.push_back(absl::StrCat(name, ": ", trouble));
    }
    if (job.state() == v1::RECOVERING) {
      attention.push_back(absl::StrCat(name, " is RECOVERING: ", SanitizeLine(job.reason())));
    } else if (job.state() == v1::QUEUED) {
      const double waited =
          absl::ToDoubleSeconds(now - TimeOf(job.has_create_time(), job.create_time()));
      attention.push_back(
          absl::StrCat(name, " is QUEUED",
                       job.has_create_time() ? absl::StrCat(" for ", DurationText(waited)) : "",
                       ": ", SanitizeLine(job.reason())));
    }
  }
  AddNodes(facts, v1::NODE_DRAINED, "`paceline node resume NODE` lets them take ranks again",
           &attention);
  AddNodes(facts, v1::NODE_CORDONED, "they take no new ranks", &attention);
  return attention;
}

std::string ClusterPage(const ClusterFacts& facts, absl::Time now, const PageStyle& style) {
  const ClusterCounts counts = CountsOf(facts);
  std::string page;
  AddLine(&page, "Controller", SanitizeLine(facts.server));
  AddLine(&page, "Nodes", CountsText(counts.nodes, static_cast<int>(facts.nodes.size())));
  AddLine(&page, "Slots", absl::StrCat(counts.slots_used, " of ", counts.slots, " used"));
  if (counts.gpus > 0) {
    AddLine(&page, "GPUs", absl::StrCat(counts.gpus_used, " of ", counts.gpus, " used"));
  }
  AddLine(&page, "Jobs", CountsText(counts.jobs, static_cast<int>(facts.jobs.size())));
  AddLine(&page, "Ranks", absl::StrCat(counts.ranks));
  AddLine(&page, "Automation", facts.automation.paused() ? "paused" : "active");
  const std::vector<std::string> attention = AttentionOf(facts, now);
  if (attention.empty()) {
    absl::StrAppend(&page, "\n", Painted("Nothing needs attention.", Colour::kGreen, style.colours),
                    "\n");
    return page;
  }
  absl::StrAppend(&page, "\n", Painted("To look at:", Colour::kYellow, style.colours), "\n");
  for (const std::string& sentence : attention) absl::StrAppend(&page, "  ", sentence, "\n");
  return page;
}

std::string ClusterJson(const ClusterFacts& facts, absl::Time now) {
  const ClusterCounts counts = CountsOf(facts);
  const nlohmann::ordered_json json = {
      {"server", facts.server},
      {"nodes", counts.nodes},
      {"slots", {{"total", counts.slots}, {"used", counts.slots_used}}},
      {"gpus", {{"total", counts.gpus}, {"used", counts.gpus_used}}},
      {"jobs", counts.jobs},
      {"ranks", counts.ranks},
      {"automation_paused", facts.automation.paused()},
      {"attention", AttentionOf(facts, now)},
  };
  return json.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace paceline
