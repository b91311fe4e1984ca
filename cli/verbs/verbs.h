// The verbs of `paceline`, by noun. Each function adds the subcommands in its comment to `parent`,
// in that order; the one on the command line sets program.action. `program` outlives the parser.
#ifndef CLI_VERBS_VERBS_H_
#define CLI_VERBS_VERBS_H_

#include "cli/program.h"

namespace CLI {  // NOLINT(readability-identifier-naming): a name of CLI11.
class App;
}

namespace paceline {

void AddRun(CLI::App& parent, Program& program);
void AddInit(CLI::App& parent, Program& program);
void AddSubmit(CLI::App& parent, Program& program);
void AddTop(CLI::App& parent, Program& program);
void AddDrill(CLI::App& parent, Program& program);

// Subcommands of `job`:
void AddJobViews(CLI::App& parent, Program& program);  // list, describe.
void AddJobLogs(CLI::App& parent, Program& program);
void AddJobChanges(CLI::App& parent, Program& program);  // ladder, mode, profile, cancel.
void AddJobResume(CLI::App& parent, Program& program);
void AddJobFollowing(CLI::App& parent, Program& program);  // wait, watch.
void AddJobAdvice(CLI::App& parent, Program& program);     // why, advise, apply, decisions.
void AddJobHistory(CLI::App& parent, Program& program);    // events, metrics.
void AddJobSamples(CLI::App& parent, Program& program);

// Subcommands of `checkpoint`:
void AddCheckpointViews(CLI::App& parent, Program& program);  // list, describe.
void AddCheckpointSave(CLI::App& parent, Program& program);
void AddCheckpointFiles(CLI::App& parent, Program& program);    // verify, export.
void AddCheckpointChanges(CLI::App& parent, Program& program);  // delete, pin, unpin.

// Subcommands of `node`:
void AddNodeViews(CLI::App& parent, Program& program);  // list, describe.
// cordon, uncordon, drain, replace, resume, lost.
void AddNodeChanges(CLI::App& parent, Program& program);
void AddNodeHistory(CLI::App& parent, Program& program);  // history, check, watch.

// Subcommands of the noun in the name:
void AddAutomationVerbs(CLI::App& parent, Program& program);  // status, pause, resume.
void AddAdminVerbs(CLI::App& parent, Program& program);       // log-level, backup, restore.
void AddDevVerbs(CLI::App& parent, Program& program);         // up, down, status.
void AddDataVerbs(CLI::App& parent, Program& program);        // import-digits, import-hf, tokenize.
void AddContextVerbs(CLI::App& parent, Program& program);     // add, use, list, show, remove.
// init, issue, rotate, token, revoke, revoked, show.
void AddPkiVerbs(CLI::App& parent, Program& program);
void AddWhoAmI(CLI::App& parent, Program& program);
void AddClusterStatus(CLI::App& parent, Program& program);
void AddQueueList(CLI::App& parent, Program& program);

void AddDiag(CLI::App& parent, Program& program);
// completion, man, version; and __names, which completion scripts call. Like man, it is not shown
// in --help.
void AddSelfVerbs(CLI::App& parent, Program& program);

}  // namespace paceline

#endif  // CLI_VERBS_VERBS_H_
