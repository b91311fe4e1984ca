// The verbs of `paceline`, one file each. Each function adds its subcommand to `parent`; when
// that is named on the command line, it sets program.action. `program` outlives the parser.
#ifndef CLI_VERBS_VERBS_H_
#define CLI_VERBS_VERBS_H_

#include "CLI/App.hpp"
#include "CLI/Config.hpp"
#include "CLI/Formatter.hpp"
#include "cli/program.h"

namespace paceline {

void AddSubmit(CLI::App& parent, Program& program);
void AddTop(CLI::App& parent, Program& program);

void AddJobList(CLI::App& parent, Program& program);
void AddJobDescribe(CLI::App& parent, Program& program);
void AddJobLogs(CLI::App& parent, Program& program);
void AddJobCancel(CLI::App& parent, Program& program);
void AddJobLadder(CLI::App& parent, Program& program);
void AddJobMode(CLI::App& parent, Program& program);
void AddJobProfile(CLI::App& parent, Program& program);
void AddJobMetrics(CLI::App& parent, Program& program);
void AddJobResume(CLI::App& parent, Program& program);
void AddJobWait(CLI::App& parent, Program& program);
void AddJobWatch(CLI::App& parent, Program& program);
void AddJobWhy(CLI::App& parent, Program& program);
void AddJobAdvise(CLI::App& parent, Program& program);
void AddJobApply(CLI::App& parent, Program& program);
void AddJobDecisions(CLI::App& parent, Program& program);
void AddJobEvents(CLI::App& parent, Program& program);

void AddCheckpointList(CLI::App& parent, Program& program);
void AddCheckpointDescribe(CLI::App& parent, Program& program);
void AddCheckpointSave(CLI::App& parent, Program& program);
void AddCheckpointVerify(CLI::App& parent, Program& program);
void AddCheckpointExport(CLI::App& parent, Program& program);
void AddCheckpointDelete(CLI::App& parent, Program& program);
void AddCheckpointPin(CLI::App& parent, Program& program);
void AddCheckpointUnpin(CLI::App& parent, Program& program);

void AddNodeList(CLI::App& parent, Program& program);
void AddNodeDescribe(CLI::App& parent, Program& program);
void AddNodeCordon(CLI::App& parent, Program& program);
void AddNodeUncordon(CLI::App& parent, Program& program);
void AddNodeDrain(CLI::App& parent, Program& program);
void AddNodeReplace(CLI::App& parent, Program& program);
void AddNodeResume(CLI::App& parent, Program& program);
void AddNodeLost(CLI::App& parent, Program& program);
void AddNodeHistory(CLI::App& parent, Program& program);
void AddNodeCheck(CLI::App& parent, Program& program);
void AddNodeWatch(CLI::App& parent, Program& program);

void AddAutomationStatus(CLI::App& parent, Program& program);
void AddAutomationPause(CLI::App& parent, Program& program);
void AddAutomationResume(CLI::App& parent, Program& program);

void AddAdminLogLevel(CLI::App& parent, Program& program);
void AddAdminBackup(CLI::App& parent, Program& program);
void AddAdminRestore(CLI::App& parent, Program& program);

void AddDevUp(CLI::App& parent, Program& program);
void AddDevDown(CLI::App& parent, Program& program);
void AddDevStatus(CLI::App& parent, Program& program);

void AddImportDigits(CLI::App& parent, Program& program);
void AddTokenize(CLI::App& parent, Program& program);

void AddClusterStatus(CLI::App& parent, Program& program);
void AddQueueList(CLI::App& parent, Program& program);

// add, use, list, show, remove.
void AddContextVerbs(CLI::App& parent, Program& program);

void AddPkiInit(CLI::App& parent, Program& program);
void AddPkiIssue(CLI::App& parent, Program& program);
void AddPkiRotate(CLI::App& parent, Program& program);
void AddPkiToken(CLI::App& parent, Program& program);
void AddPkiRevoke(CLI::App& parent, Program& program);
void AddPkiRevoked(CLI::App& parent, Program& program);
void AddPkiShow(CLI::App& parent, Program& program);
void AddWhoAmI(CLI::App& parent, Program& program);

void AddDiag(CLI::App& parent, Program& program);
void AddCompletion(CLI::App& parent, Program& program);
// For the scripts that AddCompletion's prints, and for packages: not shown in --help.
void AddCompletionNames(CLI::App& parent, Program& program);
void AddMan(CLI::App& parent, Program& program);
void AddVersion(CLI::App& parent, Program& program);

}  // namespace paceline

#endif  // CLI_VERBS_VERBS_H_
