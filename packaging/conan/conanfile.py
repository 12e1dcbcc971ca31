"""Stave for Conan 2, from the sources around this folder: conan create packaging/conan -s compiler.cppstd=20

What it links to comes from the system: ConanCenter's OpenBLAS has LAPACKE only where a Fortran compiler builds it anew.
"""

import os
import re

from conan import ConanFile
from conan.tools.build import check_min_cppstd
from conan.tools.cmake import CMake, CMakeToolchain, cmake_layout
from conan.tools.files import copy, load
from conan.tools.system.package_manager import Apt

class StaveConan(ConanFile):
    name = "stave"
    description = "A tensor runtime whose every operation can be intercepted"
    license = "BSD-3-Clause"
    topics = ("tensor", "autodiff", "effects")
    package_type = "library"
    settings = "os", "arch", "compiler", "build_type"
    options = {"shared": [True, False], "cpu_isas": ["auto", "portable"]}
    default_options = {"shared": True, "cpu_isas": "auto"}

    def set_version(self):
        project = load(self, os.path.join(self.recipe_folder, "..", "..", "CMakeLists.txt"))
        self.version = re.search(r"project\(stave VERSION ([0-9.]+)", project).group(1)

    def export_sources(self):
        root = os.path.join(self.recipe_folder, "..", "..")
        for folder in ("core", "handlers", "programs", "backends", "ranks", "cmake"):
            copy(self, f"{folder}/*", src=root, dst=self.export_sources_folder)
        for file in ("CMakeLists.txt", "core.h", "stave.h", "LICENSE"):
            copy(self, file, src=root, dst=self.export_sources_folder)

    def validate(self):
        check_min_cppstd(self, 20)

    def layout(self):
        cmake_layout(self)

    def system_requirements(self):
        packages = ["libtbb-dev", "libopenblas-pthread-dev", "liblapacke-dev", "libfmt-dev", "libsleef-dev",
                    "libboost-context-dev", "libboost-math-dev", "libeigen3-dev", "zlib1g-dev", "nlohmann-json3-dev"]
        if self.settings.arch == "x86_64":
            packages.append("libxbyak-dev")
        Apt(self).install(packages, check=True)

    def generate(self):
        toolchain = CMakeToolchain(self)
        toolchain.cache_variables.update({
            "STAVE_BUILD_TESTS": False, "STAVE_BUILD_EXAMPLES": False, "STAVE_CUDA": "OFF", "STAVE_MPI": "OFF"})
        if self.options.cpu_isas != "auto":
            toolchain.cache_variables["STAVE_CPU_ISAS"] = str(self.options.cpu_isas)
        toolchain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        copy(self, "LICENSE", src=self.source_folder, dst=os.path.join(self.package_folder, "licenses"))
        CMake(self).install()

    def package_info(self):
        # stave-config.cmake is the one description of the targets: find_package(stave) finds it, and nothing is generated.
        self.cpp_info.set_property("cmake_find_mode", "none")
        self.cpp_info.builddirs.append(os.path.join("lib", "cmake", "stave"))
        self.cpp_info.libs = ["stave", "stave_effects"]
