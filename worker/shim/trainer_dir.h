// Names of files in a trainer dir, the folder with everything about one trainer.
//
// The daemon owns the folder; the trainer, which may run as another user, cannot write it. The
// trainer writes into its own directory, a subfolder with the trainer's name
// (worker/daemon/state/node_paths.h): its working directory, log and last words. A reader of that
// must expect anything there (common/foreign_dir.h).
#ifndef WORKER_SHIM_TRAINER_DIR_H_
#define WORKER_SHIM_TRAINER_DIR_H_

namespace paceline::trainer_dir {

inline constexpr char kPlan[] = "plan";  // paceline.v1.TrainerPlan, written by the daemon.
inline constexpr char kLock[] = "lock";  // trainer_lock.h.
inline constexpr char kExit[] = "exit";  // exit_record.h, written by the shim.
inline constexpr char kSeen[] = "seen";  // paceline.v1.TrainerStatus, the last one from the socket.
inline constexpr char kFenced[] =
    "fenced";  // Text: why the daemon killed it after the node's lease ran out.
inline constexpr char kResult[] =
    "result";  // paceline.v1.TrainerReport of its end, written by the daemon.
inline constexpr char kStacks[] = "stacks.txt";  // Where its threads were (thread_stacks.h).
inline constexpr char kStoreSecret[] =
    "store_secret";  // Text: prefix secret of the trainer's store, written by the daemon.
inline constexpr char kPort[] =
    "port";  // Reserved for a command's rank 0; text, written by the daemon.
inline constexpr char kEnvironment[] =
    "environment";  // For a command: "KEY=value" and a NUL each, written by the daemon.
inline constexpr char kMarks[] = "marks";  // worker/daemon/logs/log_marks.h.

// In the trainer's own directory.
inline constexpr char kStatus[] = "status";  // paceline.v1.TrainerStatus, its last words.
inline constexpr char kErrorFile[] =
    "error.json";  // How a command failed, as torch.distributed.elastic writes it.
inline constexpr char kModules[] =
    "modules";  // What a watched command imported (python/paceline/_imports.py).
inline constexpr char kCollectivesAsk[] =
    "collectives.ask";  // Pipe that a watched command reads (python/paceline/_collectives.py).
inline constexpr char kCollectives[] =
    "collectives";                     // The answer to that: paceline.v1.RankCollectives as JSON.
inline constexpr char kLog[] = "log";  // Directory of log segments.

// The log segment that begins at offset 0.
inline constexpr char kFirstLogSegment[] = "00000000000000000000.log";

}  // namespace paceline::trainer_dir

#endif  // WORKER_SHIM_TRAINER_DIR_H_
