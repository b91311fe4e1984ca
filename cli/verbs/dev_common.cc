#include "cli/verbs/dev_common.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cli/dev/dev_trainers.h"
#include "cli/text/table.h"
#include "nlohmann/json.hpp"

namespace paceline {
namespace {

struct Row {
  DaemonPlace place;
  pid_t pid = 0;
  DaemonAddresses addresses;
  int trainers = 0;
};

Row RowOf(const DaemonPlace& place, bool worker) {
  Row row;
  row.place = place;
  row.pid = place.Pid();
  if (row.pid != 0) row.addresses = ReadAddresses(place);
  if (worker) row.trainers = static_cast<int>(LiveTrainers(place.state_dir).size());
  return row;
}

nlohmann::json JsonOf(const Row& row) {
  return {
      {"name", row.place.name},           {"running", row.pid != 0},    {"pid", row.pid},
      {"grpc", row.addresses.grpc},       {"http", row.addresses.http}, {"trainers", row.trainers},
      {"state_dir", row.place.state_dir}, {"log", row.place.log_file}};
}

std::string TableOf(const std::vector<Row>& rows, const PageStyle& style) {
  Table table(
      {{"NAME"}, {"STATE"}, {"PID", true}, {"GRPC"}, {"HTTP"}, {"TRAINERS", true}, {"LOG"}});
  for (const Row& row : rows) {
    const bool runs = row.pid != 0;
    table.Add({row.place.name,
               {runs ? "running" : "stopped", runs ? Colour::kGreen : Colour::kRed},
               runs ? absl::StrCat(row.pid) : "",
               row.addresses.grpc,
               row.addresses.http,
               absl::StrCat(row.trainers),
               row.place.log_file});
  }
  return table.Rendered(style.width, style.colours);
}

}  // namespace

void AddDirFlag(CLI::App& verb, std::string& dir) {
  verb.add_option("--dir", dir,
                  "Folder of the cluster. Default: $PACELINE_DEV_DIR, else ~/.paceline/dev");
}

DevDir ChosenDevDir(const Program& program, const std::string& dir_flag) {
  if (!dir_flag.empty()) return DevDirAt(dir_flag);
  return DefaultDevDir([&program](const char* name) { return program.Variable(name); });
}

bool ShowCluster(Program& program, const DevDir& dir) {
  std::vector<Row> rows = {RowOf(ControllerPlace(dir), false)};
  for (const std::string& name : dir.Workers()) rows.push_back(RowOf(WorkerPlace(dir, name), true));
  if (program.json()) {
    nlohmann::json workers = nlohmann::json::array();
    for (size_t i = 1; i < rows.size(); ++i) workers.push_back(JsonOf(rows[i]));
    const nlohmann::json cluster = {
        {"directory", dir.root}, {"controller", JsonOf(rows[0])}, {"workers", workers}};
    program.PrintJsonText(cluster.dump(2));
  } else {
    program.out() << TableOf(rows, program.style()) << std::flush;
  }
  return rows.size() > 1 &&
         std::all_of(rows.begin(), rows.end(), [](const Row& row) { return row.pid != 0; });
}

}  // namespace paceline
