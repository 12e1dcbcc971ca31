// Training states in files. A run that continues from a file equals an uninterrupted run bit for
// bit, and whatever happens while a file is written, the previous file stays complete. This program
// replaces fsync and rename: its versions log their calls, and fail on demand.

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <tuple>
#include <utility>

#include <stave/core/io/file.h>
#include <stave/stave.h>

#include "files.h"
#include "matchers.h"
#include "separate_backend.h"

namespace {

std::vector<std::string> calls;
std::string to_fail;  // the name of the call that fails

bool note(const std::string& call) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  calls.push_back(call);
  if (call != to_fail) return true;
  errno = EIO;
  return false;
}

}  // namespace

extern "C" int fsync(int fd) {
  const bool folder = fcntl(fd, F_GETFL) & O_DIRECTORY;
  return note(folder ? "fsync folder" : "fsync file") ? static_cast<int>(syscall(SYS_fsync, fd)) : -1;
}
extern "C" int rename(const char* from, const char* to) noexcept {
  return note("rename") ? static_cast<int>(syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0)) : -1;
}

namespace checkpoints_test {

using namespace stave;
using namespace stave_test;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;
using testing::UnorderedElementsAre;

using T = const Tensor&;
using Named = std::map<std::string, Tensor>;

// ---- training -----------------------------------------------------------------------------------

struct Linear {
  Tensor weight, bias;
  static constexpr const char* names[] = {"weight", "bias"};
};
using Mlp = std::vector<Linear>;
struct Training {
  Mlp params;
  AdamState<Mlp> optimizer;
  Key key{0};
  Tensor halves;  // a tensor of another dtype
  static constexpr const char* names[] = {"params", "optimizer", "key", "halves"};
};

Tensor network(const Mlp& mlp, const Key& key, Tensor x) {
  for (const Linear& layer : mlp) x = tanh(matmul(dropout(key, x, 0.25), layer.weight) + layer.bias);
  return x;
}
Tensor loss(const Mlp& mlp, const Key& key, T x) { return mean(square(network(mlp, key, x) - x)); }

Training start() {
  const auto linear = [](std::uint32_t seed, Index in, Index out) {
    return Linear{normal(Key(seed), {in, out}) * 0.5, zeros({out})};
  };
  const Mlp mlp{linear(1, 5, 33), linear(2, 33, 5)};
  return {mlp, adam({}).init(mlp), Key(3), ones({3}, bfloat16)};
}
Training trained(Training now, int steps) {
  const auto optimizer = adam({.learning_rate = 0.01});
  const auto step = compile([&](const Training& before) {
    const auto [next, drawn] = split<2>(before.key);
    const Mlp gradient = grad(loss)(before.params, drawn, normal(drawn, {16, 5}));
    auto [params, state] = optimizer.update(before.params, gradient, before.optimizer);
    return Training{params, state, next, before.halves * 1.5};
  });
  for (int i = 0; i < steps; ++i) now = step(now);
  return now;
}

std::vector<std::string> bytes_of(const Training& state) {
  std::vector<std::string> bytes;
  stave_detail::WithKeys collect([&](const std::string&, T x) {
    visit_real_dtype(x.dtype(), [&](auto zero) {
      const auto values = x.to_vector<decltype(zero)>();
      std::string& text = bytes.emplace_back();
      for (const decltype(zero) value : values) text.append(reinterpret_cast<const char*>(&value), sizeof value);
    });
  });
  visit_named_tensors(state, collect);
  return bytes;
}

TEST(Checkpoints, ResumedRunEqualsAnUninterruptedRun) {
  const Folder folder;
  const Checkpoints checkpoints(folder / "run");
  const Training whole = trained(start(), 25);
  Training now = start();
  for (const int steps : {1, 10, 14}) {
    if (const auto step = checkpoints.latest()) now = checkpoints.load(*step, start());
    now = trained(now, steps);
    checkpoints.save(now.optimizer.step.item<Index>(), now);
  }
  EXPECT_THAT(checkpoints.steps(), ElementsAre(1, 11, 25));
  EXPECT_EQ(bytes_of(now), bytes_of(whole));
  EXPECT_EQ(bytes_of(checkpoints.load(25, start())), bytes_of(whole));
  EXPECT_NE(bytes_of(checkpoints.load(11, start())), bytes_of(whole));
}

TEST(Checkpoints, AreSafetensorsUnderTheNamesOfTheTree) {
  const Folder folder;
  const Training state = start();
  save_checkpoint(folder / "x", state);
  const Named arrays = load_safetensors<Named>(folder / "x");
  std::vector<std::string> names;
  for (const auto& [name, value] : arrays) names.push_back(name);
  EXPECT_THAT(names, UnorderedElementsAre("halves", "key", "optimizer/0", "optimizer/1/0/bias", "optimizer/1/0/weight",
                                          "optimizer/1/1/bias", "optimizer/1/1/weight", "optimizer/2/0/bias",
                                          "optimizer/2/0/weight", "optimizer/2/1/bias", "optimizer/2/1/weight",
                                          "params/0/bias", "params/0/weight", "params/1/bias", "params/1/weight"));
  EXPECT_THAT(arrays.at("params/0/weight"), Equals(state.params[0].weight));
  EXPECT_THAT(safetensors_metadata(folder / "x"), ElementsAre(std::pair("stave.checkpoint", "1")));
}

// The file may be removed, or overwritten in place, after it was read.
TEST(Checkpoints, LoadedTensorsDoNotMapTheFile) {
  const Folder folder;
  save_checkpoint(folder / "x", ones({1000}));
  const Tensor x = load_checkpoint(folder / "x", zeros({1000}));
  fs::resize_file(folder / "x", 0);
  EXPECT_THAT(x, Equals(ones({1000})));
}

TEST(Checkpoints, LoadedTensorsAreOnTheDevicesOfTheExample) {
  const Folder folder;
  SeparateBackend backend(7);
  save_checkpoint(folder / "x", std::vector{ones({5}), to(arange(5.), cuda(7))});
  const auto read = load_checkpoint(folder / "x", std::vector{to(zeros({5}), cuda(7)), zeros({5})});
  EXPECT_EQ(read[0].device(), cuda(7));
  EXPECT_EQ(read[1].device(), cpu);
  EXPECT_THAT(to(read[0], cpu), Equals(ones({5})));
  EXPECT_THAT(read[1], Equals(arange(5.)));
}

// ---- checkpoints that do not fit ----------------------------------------------------------------

TEST(Checkpoints, ErrorNamesEveryMismatch) {
  const Folder folder;
  const std::string path = folder / "x";
  Training state = start();
  save_checkpoint(path, state);
  state.params[0].bias = zeros({34});
  state.params[1].bias = zeros({5}, float64);
  state.params.push_back(state.params[0]);
  state.optimizer.mean.pop_back();
  EXPECT_EQ(message_of<FileError>([&] { load_checkpoint(path, state); }),
            "load_checkpoint: " + path +
                ": does not fit the tree:\n"
                "  'params/0/bias' has shape [33], but [34] is expected\n"
                "  'params/1/bias' is float32, but float64 is expected: load it without `like` and convert it with "
                "astype\n"
                "  has no array 'params/2/weight'\n"
                "  has no array 'params/2/bias'\n"
                "  has an array 'optimizer/1/1/bias', which the tree does not have\n"
                "  has an array 'optimizer/1/1/weight', which the tree does not have");
}

TEST(Checkpoints, VersionIsChecked) {
  const Folder folder;
  const std::string path = folder / "x", start = "load_checkpoint: " + path + ": ";
  const auto fault = [&] { return message_of<FileError>([&] { load_checkpoint(path, ones({1})); }); };
  save_safetensors(path, ones({1}));
  EXPECT_EQ(
      fault(),
      start + "is not a checkpoint, because its metadata have no 'stave.checkpoint': load_safetensors may read it");
  save_safetensors(path, ones({1}), {.metadata = {{"stave.checkpoint", "2"}}});
  EXPECT_EQ(fault(), start + "is a checkpoint of version '2', but this library reads version 1");
  fs::remove(path);
  EXPECT_EQ(fault(), start + "cannot be opened: No such file or directory");
}

// ---- keeping the last checkpoints ---------------------------------------------------------------

TEST(Checkpoints, KeepTheLastSteps) {
  const Folder folder;
  const Checkpoints checkpoints(folder / "a/b", {.keep = 2});
  EXPECT_EQ(checkpoints.latest(), std::nullopt);
  with_bytes(folder / "a/b/step-7.safetensors", "of others");
  with_bytes(folder / "a/b/step-000000000001.safetensors.gz", "of others");
  const auto save = [&](Index step) {
    checkpoints.save(step, full({1}, static_cast<double>(step)));
    return checkpoints.steps();
  };
  EXPECT_THAT(save(0), ElementsAre(0));
  EXPECT_THAT(save(9), ElementsAre(0, 9));
  EXPECT_THAT(save(10), ElementsAre(9, 10));
  EXPECT_THAT(save(10), ElementsAre(9, 10));
  EXPECT_THAT(save(4'000'000'000'000), ElementsAre(10, 4'000'000'000'000));
  EXPECT_THAT(save(3), ElementsAre(3, 4'000'000'000'000));  // the step that was saved last stays
  EXPECT_EQ(checkpoints.latest(), 4'000'000'000'000);
  EXPECT_THAT(checkpoints.load(3, zeros({1})), Equals(full({1}, 3.)));
  EXPECT_EQ(checkpoints.path(3), folder / "a/b/step-000000000003.safetensors");
  EXPECT_TRUE(fs::exists(folder / "a/b/step-7.safetensors"));
  EXPECT_TRUE(fs::exists(folder / "a/b/step-000000000001.safetensors.gz"));

  const Checkpoints all(folder / "all", {.keep = 0});
  for (Index step = 0; step < 10; ++step) all.save(step, ones({1}));
  EXPECT_EQ(all.steps().size(), 10u);
}

TEST(Checkpoints, InvalidStepsAndFoldersAreErrors) {
  const Folder folder;
  const Checkpoints checkpoints(folder.path);
  EXPECT_EQ(message_of<FileError>([&] { checkpoints.save(-1, ones({1})); }),
            "Checkpoints: " + folder.path + ": -1 is not a step: steps count from 0");
  EXPECT_EQ(message_of<FileError>([&] { Checkpoints(folder.path, {.keep = -1}); }),
            "Checkpoints: " + folder.path + ": `keep` is -1: give a positive number, or 0 to keep all checkpoints");
  with_bytes(folder / "file", "");
  EXPECT_THAT(message_of<FileError>([&] { Checkpoints{folder / "file/run"}; }),
              StartsWith("Checkpoints: " + folder / "file/run" + ": the folder cannot be created: "));
  EXPECT_THAT(message_of<FileError>([&] { checkpoints.load(5, ones({1})); }), HasSubstr("step-000000000005"));
}

// ---- failures and crashes -----------------------------------------------------------------------

TEST(Checkpoints, AreFlushedToDiskBeforeTheRename) {
  const Folder folder;
  calls.clear();
  save_checkpoint(folder / "x", ones({1}));
  EXPECT_THAT(calls, ElementsAre("fsync file", "rename", "fsync folder"));
}

TEST(Checkpoints, FailedSaveKeepsThePreviousFile) {
  const Folder folder;
  save_checkpoint(folder / "x", ones({100}));
  for (const char* call : {"fsync file", "rename"}) {
    to_fail = call;
    const std::string fault = message_of<FileError>([&] { save_checkpoint(folder / "x", zeros({100})); });
    to_fail.clear();
    EXPECT_EQ(fault, "save_checkpoint: " + folder / "x" + ": cannot be written: Input/output error") << call;
    EXPECT_THAT(load_checkpoint(folder / "x", zeros({100})), Equals(ones({100}))) << call;
    EXPECT_THAT(folder.names(), ElementsAre("x"));
  }
  to_fail = "fsync folder";
  const std::string fault = message_of<FileError>([&] { save_checkpoint(folder / "x", zeros({100})); });
  to_fail.clear();
  EXPECT_EQ(fault, "save_checkpoint: " + folder / "x" +
                       ": is written, but its name may not be on the disk yet: Input/output error");
}

// ---- files that killed processes leave ----------------------------------------------------------

/// A process that keeps a file half-written until it is killed or told to finish.
class Saving {
 public:
  explicit Saving(const std::string& path) {
    int ready[2], go[2];
    if (pipe(ready) != 0 || pipe(go) != 0) std::abort();
    pid_ = fork();
    if (pid_ == 0) {
      stave_detail::OutputFile file("test", path);
      file.write(std::string_view("half "));
      char byte = 0;
      if (write(ready[1], "x", 1) != 1 || read(go[0], &byte, 1) != 1) _exit(1);
      file.write(std::string_view("whole"));
      file.finish();
      _exit(0);
    }
    char byte = 0;
    if (read(ready[0], &byte, 1) != 1) std::abort();
    go_ = go[1];
    for (const int fd : {ready[0], ready[1], go[0]}) close(fd);
  }
  ~Saving() {
    close(go_);
    if (pid_ > 0) end(SIGKILL);
  }
  Saving(const Saving&) = delete;
  /// Returns the exit status, or the signal that ended the process.
  int kill() { return end(SIGKILL); }
  int finish() { return write(go_, "x", 1) == 1 ? end(0) : -1; }

 private:
  int end(int signal) {
    if (signal) ::kill(pid_, signal);
    int status = 0;
    waitpid(std::exchange(pid_, -1), &status, 0);
    return WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
  }
  pid_t pid_;
  int go_;
};

/// All functions that write complete files.
const std::pair<const char*, std::function<void(const std::string&)>> savers[] = {
    {"save_npy", [](const std::string& path) { save_npy(path, ones({1})); }},
    {"save_npz", [](const std::string& path) { save_npz(path, ones({1})); }},
    {"save_safetensors", [](const std::string& path) { save_safetensors(path, ones({1})); }},
    {"save_checkpoint", [](const std::string& path) { save_checkpoint(path, ones({1})); }},
    {"HtmlReport", [](const std::string& path) { HtmlReport().write_html(path); }}};

TEST(Savers, RemoveTheTemporaryFileOfAKilledProcess) {
  for (const auto& [name, save] : savers) {
    const Folder folder;
    EXPECT_EQ(Saving(folder / "x").kill(), SIGKILL);
    ASSERT_EQ(folder.names().size(), 1u) << name;
    save(folder / "x");
    EXPECT_THAT(folder.names(), ElementsAre("x")) << name;
  }
}

// After a container restarts, process ids repeat, so that a name of a temporary file may be taken.
TEST(Savers, SaveAlthoughTemporaryNamesAreTaken) {
  for (const auto& [name, save] : savers) {
    const Folder folder;
    std::vector<std::string> names = {"x"};
    for (int i = 0; i < 50; ++i) {
      names.push_back("x." + std::to_string(getpid()) + "-" + std::to_string(i) + ".part");
      with_bytes(folder / names.back(), "of a process with the same number");
    }
    fs::create_directory(folder / "x.stave-0.part");
    fs::create_symlink("x.1", folder / "x.stave-1.part");
    mkfifo((folder / "x.stave-2.part").c_str(), 0600);
    for (int i = 0; i < 3; ++i) {
      names.push_back("x.stave-" + std::to_string(i) + ".part");
      save(folder / "x");
    }
    EXPECT_THAT(folder.names(), testing::UnorderedElementsAreArray(names)) << name;
  }
}

TEST(Savers, KeepTemporaryFilesOfLivingProcesses) {
  for (const auto& [name, save] : savers) {
    const Folder folder;
    Saving other(folder / "x");
    const std::vector<std::string> part = folder.names();
    save(folder / "x");
    EXPECT_THAT(folder.names(), UnorderedElementsAre("x", part.at(0))) << name;
    EXPECT_EQ(other.finish(), 0);
    EXPECT_EQ(stave_test::bytes_of(folder / "x"), "half whole") << name;
    EXPECT_THAT(folder.names(), ElementsAre("x")) << name;
  }
}

TEST(Savers, RemoveTemporaryFilesOfSeveralKilledProcesses) {
  const Folder folder;
  {
    std::vector<std::unique_ptr<Saving>> others;
    for (int i = 0; i < 12; ++i) others.push_back(std::make_unique<Saving>(folder / "x"));
    EXPECT_EQ(folder.names().size(), 12u);
    for (const int finished : {0, 1, 2, 3, 4, 5, 6, 8, 9, 10}) EXPECT_EQ(others[finished]->finish(), 0);
  }
  // The saved file, and the files that two killed processes left.
  EXPECT_EQ(folder.names().size(), 3u);
  save_npy(folder / "x", ones({1}));
  EXPECT_THAT(folder.names(), ElementsAre("x"));
}

TEST(Savers, KeepTemporaryFilesOfOtherTargets) {
  const Folder folder;
  Saving(folder / "x").kill();
  save_npy(folder / "y", ones({1}));
  save_npy(folder / "x.npy", ones({1}));
  EXPECT_EQ(folder.names().size(), 3u);
}

TEST(Savers, MayAllSaveTheSameFile) {
  const Folder folder;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 6; ++thread)
    threads.emplace_back([&, thread] {
      for (int i = 0; i < 30; ++i) {
        save_npy(folder / "x", full({100}, thread));
        const Tensor x = load_npy(folder / "x");
        EXPECT_THAT(x, Equals(broadcast_to(x(0), {100})));
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(folder.names(), ElementsAre("x"));
}

// A temporary file has the permissions of the file that it will replace, from its first byte on.
TEST(Savers, TemporaryFileOfAReadOnlyFileIsReadOnlyAndRemoved) {
  const Folder folder;
  save_npy(folder / "x", ones({1}));
  fs::permissions(folder / "x", fs::perms(0400));
  Saving(folder / "x").kill();
  ASSERT_EQ(folder.names().size(), 2u);
  for (const std::string& name : folder.names()) EXPECT_EQ(fs::status(folder / name).permissions(), fs::perms(0400));
  save_npy(folder / "x", ones({1}));
  EXPECT_THAT(folder.names(), ElementsAre("x"));
}

TEST(Checkpoints, RemoveTemporaryFilesOfOtherSteps) {
  const Folder folder;
  const Checkpoints checkpoints(folder.path);
  Saving(checkpoints.path(1)).kill();
  Saving(checkpoints.path(2)).kill();
  with_bytes(folder / ("step-000000000003.safetensors." + std::to_string(getpid()) + "-0.part"),
             "of a process of this number");
  Saving living(checkpoints.path(4));
  checkpoints.save(5, ones({1}));
  EXPECT_EQ(folder.names().size(), 2u);
  EXPECT_EQ(living.finish(), 0);
  EXPECT_THAT(checkpoints.steps(), ElementsAre(4, 5));
}

// Files left by killed runs may have filled the disk. They are removed before anything is written.
TEST(Checkpoints, RemoveTemporaryFilesBeforeSaving) {
  const Folder folder;
  const Checkpoints checkpoints(folder.path);
  Saving(checkpoints.path(1)).kill();
  to_fail = "fsync file";
  EXPECT_THAT(message_of<FileError>([&] { checkpoints.save(2, ones({1})); }), HasSubstr("Input/output error"));
  to_fail.clear();
  EXPECT_THAT(folder.names(), IsEmpty());
}

[[noreturn]] void save_until_killed(const char* folder) {
  const Checkpoints checkpoints(folder, {.keep = 1});
  for (Index step = checkpoints.latest().value_or(-1) + 1;; ++step)
    checkpoints.save(step, std::vector(8, full({1 << 14}, static_cast<double>(step))));
}

// The test runs its own program again; that process finds a folder in its environment, and saves
// until it is killed.
TEST(Checkpoints, KilledRunLeavesACompleteCheckpoint) {
  if (const char* folder = std::getenv("STAVE_TEST_FOLDER")) save_until_killed(folder);
  const Folder folder;
  setenv("STAVE_TEST_FOLDER", folder.path.c_str(), 1);
  std::string program = fs::read_symlink("/proc/self/exe"),
              filter = "--gtest_filter=*KilledRunLeavesACompleteCheckpoint";
  char* const arguments[] = {program.data(), filter.data(), nullptr};
  posix_spawn_file_actions_t quiet;
  posix_spawn_file_actions_init(&quiet);
  posix_spawn_file_actions_addopen(&quiet, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  std::mt19937 engine(1);
  const Checkpoints checkpoints(folder.path);
  const std::vector<Tensor> like(8, zeros({1 << 14}));
  std::size_t parts = 0;
  Index last = -1;
  for (int i = 0; i < 12 || parts == 0; ++i) {  // until at least one was killed while it wrote
    pid_t pid = 0;
    ASSERT_EQ(posix_spawn(&pid, program.c_str(), &quiet, nullptr, arguments, environ), 0);
    const auto moment = [] { std::this_thread::sleep_for(std::chrono::microseconds(100)); };
    while (checkpoints.latest().value_or(-1) <= last) moment();
    for (auto moments = engine() % 100; moments-- > 0;) moment();
    kill(pid, SIGKILL);
    int status = 0;
    waitpid(pid, &status, 0);
    ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    const std::vector<std::string> names = folder.names();
    parts += names.size() - checkpoints.steps().size();
    for (const Index step : checkpoints.steps())
      for (T x : checkpoints.load(step, like)) EXPECT_THAT(x, Equals(full({1 << 14}, static_cast<double>(step))));
    EXPECT_GT(*checkpoints.latest(), last);
    last = *checkpoints.latest();
  }
  posix_spawn_file_actions_destroy(&quiet);
  unsetenv("STAVE_TEST_FOLDER");
  checkpoints.save(last + 1, like);
  // Files left by killed processes are removed.
  EXPECT_EQ(folder.names().size(), checkpoints.steps().size());
}

}  // namespace checkpoints_test
