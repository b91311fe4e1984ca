// What the `paceline dev` verbs share: the folder flag and the table of daemons.
#ifndef CLI_VERBS_DEV_COMMON_H_
#define CLI_VERBS_DEV_COMMON_H_

#include <string>

#include "CLI/App.hpp"
#include "CLI/Config.hpp"
#include "CLI/Formatter.hpp"
#include "cli/dev/dev_dir.h"
#include "cli/program.h"

namespace paceline {

// Adds --dir, stored in `dir`, which outlives the parser.
void AddDirFlag(CLI::App& verb, std::string& dir);

DevDir ChosenDevDir(const Program& program, const std::string& dir_flag);

// The daemons of the cluster: state, process, addresses, live trainers, log; as a table, or
// as JSON. Returns true when the controller and every worker run.
bool ShowCluster(Program& program, const DevDir& dir);

}  // namespace paceline

#endif  // CLI_VERBS_DEV_COMMON_H_
