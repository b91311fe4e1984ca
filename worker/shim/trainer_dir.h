// Names within a trainer dir, the folder in which everything about one trainer lies.
//
// The folder is the daemon's; the trainer, which may run as another user, cannot write it. What
// the trainer writes lies in its own directory, a folder of that folder with the trainer's name
// (worker/daemon/state/node_paths.h): its working directory, its log, its last words. Whoever reads
// there reads what a stranger may have put there (common/foreign_dir.h).
#ifndef WORKER_SHIM_TRAINER_DIR_H_
#define WORKER_SHIM_TRAINER_DIR_H_

namespace paceline::trainer_dir {

inline constexpr char kPlan[] = "plan";  // paceline.v1.TrainerPlan, written by the daemon.
inline constexpr char kLock[] = "lock";  // trainer_lock.h.
inline constexpr char kExit[] = "exit";  // exit_record.h, written by the shim.
inline constexpr char kSeen[] =
    "seen";  // paceline.v1.TrainerStatus, the last one that came by the socket.
inline constexpr char kFenced[] =
    "fenced";  // Why the daemon killed it when the node's lease had run out; text.
inline constexpr char kResult[] =
    "result";  // paceline.v1.TrainerReport of the end, written by the daemon.
inline constexpr char kStacks[] = "stacks.txt";  // Where its threads were (thread_stacks.h).
inline constexpr char kStoreSecret[] =
    "store_secret";  // Of the keys in the trainer's store; text, written by the daemon.
inline constexpr char kPort[] = "port";  // Reserved for a command; text, written by the daemon.
inline constexpr char kEnvironment[] =
    "environment";  // Of a command: "KEY=value" and a NUL each, written by the daemon.
inline constexpr char kMarks[] = "marks";  // worker/daemon/logs/log_marks.h.

// In the trainer's own directory.
inline constexpr char kStatus[] = "status";  // paceline.v1.TrainerStatus, its last words.
inline constexpr char kErrorFile[] =
    "error.json";  // Of a command: how it failed, as torch.distributed.elastic writes it.
inline constexpr char kModules[] =
    "modules";  // Of a watched command: what it has imported (python/paceline/_imports.py).
inline constexpr char kCollectivesAsk[] =
    "collectives.ask";  // Pipe, read by a watched command (python/paceline/_collectives.py),
inline constexpr char kCollectives[] =
    "collectives";                     // and its answer: paceline.v1.RankCollectives as JSON.
inline constexpr char kLog[] = "log";  // Directory of log segments.

// The segment that begins at offset 0 of the log.
inline constexpr char kFirstLogSegment[] = "00000000000000000000.log";

}  // namespace paceline::trainer_dir

#endif  // WORKER_SHIM_TRAINER_DIR_H_
