#include "controller/loop/change_log.h"

#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/job_spec/enum_name.h"
#include "controller/core/checkpoint/job_checkpoints.h"
#include "controller/wire/convert.h"
#include "controller/wire/convert_node.h"

namespace paceline {
namespace {

void Add(std::vector<ChangeLine>& lines, std::string text) {
  lines.push_back({LogLevel::kInfo, std::move(text)});
}

// Adds the lines about one job's transitions. Those that have no line are in its history.
class JobWriter {
 public:
  JobWriter(const Job& job, std::vector<ChangeLine>& lines)
      : job_(job), id_(job.request.id.value()), lines_(lines) {}

  void operator()(const transition::StateChanged&) {
    Add(lines_,
        absl::StrCat("job_state job=", id_, " state=", v1::JobState_Name(ToProto(job_.state)),
                     " reason=\"", job_.reason, "\""));
  }
  void operator()(const transition::Started&) {
    AddGeneration(
        job_.recovery.started, "start", job_.homes.size(),
        absl::StrCat("from ", job_.restored_from.empty() ? "the beginning" : job_.restored_from));
  }
  void operator()(const transition::MembershipChanged& changed) {
    const MembershipChange& change = changed.change;
    AddGeneration(change.generation, change.planned ? "planned" : "failure",
                  static_cast<size_t>(change.ranks_after), change.reason);
  }
  void operator()(const transition::CheckpointCompleted&) {
    const Checkpoint& newest = *NewestComplete(job_);
    Add(lines_, absl::StrCat("checkpoint_complete job=", id_,
                             " directory=", DirectoryOf(job_, newest), " bytes=", newest.bytes,
                             " took=", absl::FormatDuration(job_.checkpoints.durable)));
  }
  void operator()(const transition::CheckpointErrorChanged&) {
    lines_.push_back({LogLevel::kWarning, absl::StrCat("checkpoint_error job=", id_, " error=\"",
                                                       job_.checkpoints.last_error, "\"")});
  }
  void operator()(const transition::DecisionChanged& changed) {
    const RemedyDecision& decision = changed.decision;
    Add(lines_,
        absl::StrCat("decision job=", id_, " id=", decision.id, " what=\"",
                     DescribeRemedy(decision), "\" state=", NameOf(decision.state), " reason=\"",
                     decision.reason, "\" outcome=\"", decision.outcome, "\""));
  }
  template <typename Other>
  void operator()(const Other&) {}

 private:
  void AddGeneration(Generation generation, const char* cause, size_t ranks,
                     const std::string& reason) {
    Add(lines_, absl::StrCat("job_generation job=", id_, " generation=", generation.value(),
                             " cause=", cause, " ranks=", ranks, " reason=\"", reason, "\""));
  }

  const Job& job_;
  const std::string& id_;
  std::vector<ChangeLine>& lines_;
};

// Decisions and states come first, as they say what the other lines are about.
bool ComesFirst(const JobTransition& happened) {
  return std::holds_alternative<transition::DecisionChanged>(happened) ||
         std::holds_alternative<transition::StateChanged>(happened);
}

std::string LineOf(const Node& node) {
  return absl::StrCat("node_state node=", node.facts.name.value(),
                      " state=", ShortEnumName(*v1::NodeState_descriptor(), ToProto(node.state)),
                      " reason=\"", node.reason, "\"");
}

std::string LineOf(const Automation& automation) {
  if (!automation.paused) return "automation_state paused=false";
  return absl::StrCat("automation_state paused=true owner=", automation.owner, " reason=\"",
                      automation.reason, "\"");
}

}  // namespace

std::vector<ChangeLine> ChangeLines(const Cluster& cluster, const JobTransitions& happened,
                                    const Actions& actions) {
  std::vector<ChangeLine> lines;
  for (const auto& [id, transitions] : happened) {
    JobWriter writer(*cluster.FindJob(id), lines);
    for (const bool first : {true, false}) {
      for (const JobTransition& one : transitions) {
        if (ComesFirst(one) == first) std::visit(writer, one);
      }
    }
  }
  for (const NodeName& name : actions.changed_nodes) Add(lines, LineOf(cluster.nodes().at(name)));
  if (actions.store_automation) Add(lines, LineOf(cluster.automation()));
  return lines;
}

void WriteLines(const std::vector<ChangeLine>& lines) {
  for (const ChangeLine& line : lines) {
    LogLine(line.level, __FILE__, __LINE__).stream() << line.text;
  }
}

}  // namespace paceline
