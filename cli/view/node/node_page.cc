#include "cli/view/node/node_page.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "cli/text/reported_once.h"
#include "cli/text/sanitize.h"
#include "cli/text/table.h"
#include "cli/view/job/job_text.h"
#include "cli/view/numbers.h"
#include "common/job_spec/enum_name.h"

namespace paceline {
namespace {

std::string LabelsText(const v1::Node& node) {
  // Sorted, since a proto map has no order.
  std::map<std::string, std::string> sorted(node.labels().begin(), node.labels().end());
  return SanitizeLine(absl::StrJoin(sorted, ", ", absl::PairFormatter("=")));
}

// "swap".
std::string ModeText(v1::DrainMode mode) {
  if (!v1::DrainMode_IsValid(mode)) return absl::StrCat("mode ", static_cast<int>(mode));
  return EnumName(*v1::DrainMode_descriptor(), mode);
}

bool IsDrain(const v1::Hold& hold) { return hold.drain() != v1::DRAIN_MODE_UNSPECIFIED; }

void AddHoldLines(std::string* page, const v1::Node& node, absl::Time now, ReportedOnce* reported) {
  const char* label = "Holds";
  for (const v1::Hold& hold : node.holds()) {
    std::string line = absl::StrCat(
        IsDrain(hold) ? absl::StrCat("drain (", ModeText(hold.drain()), ")") : "cordon", " by ",
        SanitizeLine(hold.owner()), " since ",
        MomentText(TimeOf(hold.has_since(), hold.since()), now));
    if (hold.has_until()) {
      const double left = absl::ToDoubleSeconds(TimeOf(true, hold.until()) - now);
      absl::StrAppend(&line, IsDrain(hold) ? ", deadline in " : ", ends in ",
                      DurationText(std::max(0.0, left)));
    }
    AddLine(page, label, absl::StrCat(line, ": ", TellOnce(reported, SanitizeLine(hold.reason()))));
    label = "";
  }
}

// The most important hold: a drain before a cordon.
const v1::Hold* MainHold(const v1::Node& node) {
  const v1::Hold* main = nullptr;
  for (const v1::Hold& hold : node.holds()) {
    if (main == nullptr || IsDrain(hold) || !IsDrain(*main)) main = &hold;
  }
  return main;
}

std::string ValueText(double value, const std::string& unit) {
  return absl::StrCat(absl::StrFormat("%.4g", value), unit.empty() ? "" : " ", SanitizeLine(unit));
}

// "pair_latency to w2".
std::string NameText(const v1::NodeMeasurement& measurement, const std::string& peer) {
  const bool is_pair = absl::StartsWith(measurement.name(), "pair_") && !peer.empty();
  return is_pair ? absl::StrCat(measurement.name(), " to ", peer) : measurement.name();
}

std::string MedianText(bool known, double median, const v1::NodeMeasurement& measurement) {
  if (!known) return "";
  std::string text = ValueText(median, measurement.unit());
  if (median > 0) {
    absl::StrAppend(&text,
                    absl::StrFormat(" (%+.0f %%)", 100 * (measurement.value() / median - 1)));
  }
  return text;
}

}  // namespace

std::string NodeTable(const v1::ListNodesResponse& nodes, absl::Time now, const PageStyle& style) {
  std::vector<Table::Column> columns = {
      {"NAME"},         {"STATE"},        {"SLOTS", true}, {"GPUS", true}, {"CPUS", true},
      {"MEMORY", true}, {"REPORT", true}, {"SINCE", true}, {"BY"},         {"JOBS"}};
  if (style.wide) {
    columns.insert(columns.end(), {{"GPU"}, {"LABELS"}, {"ADDRESS"}, {"VERSION"}});
  }
  columns.push_back({"REASON"});
  Table table(std::move(columns));
  for (const v1::Node& node : nodes.nodes()) {
    const absl::Time report = TimeOf(node.has_last_report_time(), node.last_report_time());
    const v1::Hold* hold = MainHold(node);
    const absl::Time since =
        hold == nullptr ? absl::InfinitePast() : TimeOf(hold->has_since(), hold->since());
    std::vector<Table::Cell> row = {
        node.name(),
        {StateText(node.state()), StateColour(node.state())},
        absl::StrCat(node.slots_used(), "/", node.slots()),
        absl::StrCat(node.gpus_used(), "/", node.hardware().gpus_size()),
        absl::StrCat(node.hardware().cpus()),
        BytesText(node.hardware().memory_bytes()),
        node.has_last_report_time() ? DurationText(absl::ToDoubleSeconds(now - report)) : "",
        hold == nullptr ? "" : DurationText(absl::ToDoubleSeconds(now - since)),
        hold == nullptr ? "" : hold->owner(),
        absl::StrJoin(node.jobs(), ",")};
    if (style.wide) {
      const auto& gpus = node.hardware().gpus();
      row.insert(row.end(), {gpus.empty() ? "" : gpus.Get(0), LabelsText(node), node.address(),
                             node.version()});
    }
    row.emplace_back(node.reason());
    table.Add(std::move(row));
  }
  return table.Rendered(style.width, style.colours, style.headings);
}

std::string NodeLine(const v1::Node& node, const PageStyle& style) {
  return absl::StrCat(SanitizeLine(node.name()), " is ",
                      Painted(StateText(node.state()), StateColour(node.state()), style.colours),
                      ": ", SanitizeLine(node.reason()));
}

std::string DrainLine(const v1::Node& node, const PageStyle& style) {
  std::string line =
      absl::StrCat(SanitizeLine(node.name()), " ",
                   Painted(StateText(node.state()), StateColour(node.state()), style.colours), ": ",
                   SanitizeLine(node.reason()));
  if (node.state() == v1::NODE_DRAINING && node.jobs_size() > 0) {
    absl::StrAppend(&line, "; still there: ", SanitizeLine(absl::StrJoin(node.jobs(), ", ")));
  }
  return line;
}

std::string DrainText(const v1::DrainNodeResponse& response, bool dry_run, const PageStyle& style) {
  const std::string name = SanitizeLine(response.node().name());
  std::string text = dry_run ? absl::StrCat(name, " would be drained\n")
                             : absl::StrCat(NodeLine(response.node(), style), "\n");
  if (response.effects().empty() && dry_run) absl::StrAppend(&text, "  nothing runs there\n");
  for (const v1::DrainEffect& effect : response.effects()) {
    absl::StrAppend(&text, "  ", SanitizeLine(effect.job()), ": ", SanitizeLine(effect.effect()),
                    "\n");
  }
  return text;
}

std::string NodePage(const v1::Node& node, absl::Time now, const PageStyle& style) {
  std::string page;
  AddLine(&page, "Name", SanitizeLine(node.name()));
  AddLine(&page, "State",
          Painted(StateText(node.state()), StateColour(node.state()), style.colours));
  ReportedOnce once;
  ReportedOnce* const reported = style.wide ? nullptr : &once;
  AddLine(&page, "Reason", TellOnce(reported, SanitizeLine(node.reason())));
  AddHoldLines(&page, node, now, reported);
  AddLine(&page, "Slots", absl::StrCat(node.slots_used(), " of ", node.slots(), " used"));
  AddLine(&page, "GPUs",
          absl::StrCat(node.gpus_used(), " of ", node.hardware().gpus_size(), " used"));
  for (const std::string& gpu : node.hardware().gpus()) AddLine(&page, "", SanitizeLine(gpu));
  AddLine(&page, "Processors", absl::StrCat(node.hardware().cpus()));
  AddLine(&page, "Memory", BytesText(node.hardware().memory_bytes()));
  AddLine(&page, "System", SanitizeLine(node.hardware().os()));
  AddLine(&page, "Labels", LabelsText(node));
  AddLine(&page, "Address", SanitizeLine(node.address()));
  AddLine(&page, "Metrics", SanitizeLine(node.metrics_address()));
  AddLine(&page, "Jobs", SanitizeLine(absl::StrJoin(node.jobs(), ", ")));
  AddLine(&page, "Registered",
          MomentText(TimeOf(node.has_register_time(), node.register_time()), now));
  AddLine(&page, "Reported",
          MomentText(TimeOf(node.has_last_report_time(), node.last_report_time()), now));
  AddLine(&page, "Version", SanitizeLine(node.version()));
  if (node.has_check()) {
    absl::StrAppend(&page, "\nCheck ", node.check().id(), ", ",
                    MomentText(TimeOf(node.check().has_time(), node.check().time()), now), ":\n",
                    CheckTable(node.check(), style));
  }
  return page;
}

std::string HistoryTable(const v1::NodeHistory& history, absl::Time now, const PageStyle& style) {
  Table table({{"TIME"}, {"STATE"}, {"WHO"}, {"WHAT"}});
  for (const v1::NodeHistoryEvent& event : history.events()) {
    table.Add({MomentText(TimeOf(event.has_time(), event.time()), now),
               {StateText(event.state()), StateColour(event.state())},
               event.who(),
               event.what()});
  }
  return table.Rendered(style.width, style.colours, style.headings);
}

std::string CheckTable(const v1::NodeCheckResult& result, const PageStyle& style) {
  const std::string missing =
      result.error().empty()
          ? ""
          : absl::StrCat("could not be measured: ", SanitizeLine(result.error()), "\n");
  if (result.measurements().empty()) return missing;
  Table table({{"MEASUREMENT"},
               {"VALUE", true},
               {"OWN MEDIAN", true},
               {"PEERS' MEDIAN", true},
               {"VERDICT"}});
  for (const v1::NodeMeasurement& measurement : result.measurements()) {
    table.Add(
        {NameText(measurement, result.peer()),
         ValueText(measurement.value(), measurement.unit()),
         MedianText(measurement.has_own_median(), measurement.own_median(), measurement),
         MedianText(measurement.has_peer_median(), measurement.peer_median(), measurement),
         {measurement.bad() ? "bad" : "ok", measurement.bad() ? Colour::kRed : Colour::kGreen}});
  }
  return absl::StrCat(table.Rendered(style.width, style.colours), missing);
}

std::string AutomationPage(const v1::AutomationStatus& automation, absl::Time now,
                           const PageStyle& style) {
  std::string page;
  AddLine(&page, "Automation",
          automation.paused() ? Painted("paused", Colour::kYellow, style.colours)
                              : Painted("active", Colour::kGreen, style.colours));
  if (automation.paused()) {
    AddLine(&page, "By", SanitizeLine(automation.owner()));
    AddLine(&page, "Reason", SanitizeLine(automation.reason()));
    AddLine(&page, "Since", MomentText(TimeOf(automation.has_since(), automation.since()), now));
  }
  AddLine(&page, "Brake",
          absl::StrCat("at more than ", PercentText(automation.max_share()), " of the nodes"));
  AddLine(&page, "Drains", SanitizeLine(absl::StrJoin(automation.draining(), ", ")));
  return page;
}

}  // namespace paceline
