// paceline node watch [NODE...]
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "cli/text/host_list.h"
#include "cli/verbs/verbs.h"
#include "cli/verbs/watch_flag.h"
#include "proto/node.pb.h"

namespace paceline {
namespace {

int Watch(Program& program, const std::vector<std::string>& words) {
  const auto names = ExpandHosts(words);
  if (!names.ok()) return program.Fail(names.status());
  return TellNodeChanges(program, [&](const v1::Node& node) {
    return names->empty() || std::count(names->begin(), names->end(), node.name()) > 0;
  });
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
