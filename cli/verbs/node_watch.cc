// paceline node watch [NODE...]
#include "cli/rpc/node_watch.h"

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cli/text/host_list.h"
#include "cli/text/neutral.h"
#include "cli/verbs/verbs.h"
#include "cli/view/node_page.h"

namespace paceline {
namespace {

// A line for each node that there is, and then for each change.
int Watch(Program& program, const std::vector<std::string>& words) {
  const auto names = ExpandHosts(words);
  if (!names.ok()) return program.Fail(names.status());
  std::map<std::string, std::string> shown;
  ChangeWatch<v1::NodeEvent> watch;
  watch.each = [&](const v1::NodeEvent& event) {
    const std::string& name = event.node().name();
    if (!names->empty() && std::count(names->begin(), names->end(), name) == 0) return true;
    if (program.json()) {
      program.PrintJsonLine(event);
      return true;
    }
    const std::string line = DrainLine(event.node(), program.style());
    if (std::exchange(shown[name], line) != line) program.out() << line << std::endl;
    return true;
  };
  watch.on_outage = [&](const grpc::Status&) {
    program.Note(absl::StrCat("the controller at ", program.server(),
                              " does not answer; going on when it is back"));
  };
  return program.Fail(WatchNodes(program.client(), watch));
}

}  // namespace

void AddNodeWatch(CLI::App& parent, Program& program) {
  const auto names = std::make_shared<std::vector<std::string>>();
  CLI::App* verb = parent.add_subcommand("watch", "Show the changes of nodes");
  verb->add_option("NODE", *names, "Names of nodes; none: all");
  verb->callback(
      [names, &program] { program.action = [names, &program] { return Watch(program, *names); }; });
}

}  // namespace paceline
