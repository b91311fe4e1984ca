// For loops that are fast by their compiler (bazel/cpu_kernels.bzl).
#ifndef WORKER_TRAINER_MODEL_CPU_VERSIONS_H_
#define WORKER_TRAINER_MODEL_CPU_VERSIONS_H_

// The compiler makes one version of a function per instruction set, and the loader picks the
// machine's best. Not with sanitizers, whose runtime is not ready when the loader asks (.bazelrc
// makes TSan visible only by libstdc++'s macro).
#if defined(__x86_64__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(_GLIBCXX_TSAN)
#define PACELINE_CPU_VERSIONS \
  __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define PACELINE_CPU_VERSIONS
#endif

#endif  // WORKER_TRAINER_MODEL_CPU_VERSIONS_H_
